import { useQuery } from "@tanstack/react-query";
import { status } from "@/api/queries";
import { Card } from "@/components/Card";
import { Loaded } from "@/components/feedback";
import { Page } from "@/layout/Page";

export default function Overview() {
  const now = useQuery(status());
  return (
    <Page title="Overview">
      <Card title="Fleets">
        <Loaded query={now}>{(data) => <>{data.fleets.length}</>}</Loaded>
      </Card>
    </Page>
  );
}
