import { useQuery } from "@tanstack/react-query";
import { fleets, status } from "@/api/queries";
import { Card } from "@/components/Card";
import { Loaded, Warning } from "@/components/feedback";
import { Page } from "@/layout/Page";
import { BurnRate } from "./BurnRate";
import { Capacity } from "./Capacity";
import { FirstSteps } from "./FirstSteps";
import { Headline } from "./Headline";
import { OpenAlerts } from "./OpenAlerts";
import { SloAttainment } from "./SloAttainment";
import { Solves } from "./Solves";

export default function Overview() {
  const known = useQuery(fleets());
  const now = useQuery(status());
  return (
    <Page title="Overview">
      <Loaded query={known} height={400}>
        {(all) =>
          all.length === 0 ? (
            <FirstSteps />
          ) : (
            <>
              <Headline fleets={all} now={now.data?.instances} />
              {now.data?.clouds
                .filter((cloud) => cloud.left_out && cloud.fleets.length > 0)
                .map((cloud) => (
                  <Warning key={cloud.cloud}>
                    <strong>{cloud.cloud}</strong> is left out of plans: {cloud.left_out}
                  </Warning>
                ))}
              <div className="grid wide-narrow even">
                <BurnRate />
                <OpenAlerts />
              </div>
              <div className="grid wide-narrow even">
                <Card title="Demand against capacity" flush>
                  <Loaded query={now}>{(data) => <Capacity fleets={data.fleets} />}</Loaded>
                </Card>
                <Card title="Solves" flush>
                  <Loaded query={now}>{(data) => <Solves solves={data.solves} fleets={all} />}</Loaded>
                </Card>
              </div>
              <SloAttainment fleets={all} />
            </>
          )
        }
      </Loaded>
    </Page>
  );
}
