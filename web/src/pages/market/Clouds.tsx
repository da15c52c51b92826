import { useQuery, useQueryClient } from "@tanstack/react-query";
import { RefreshCw } from "lucide-react";
import { useState } from "react";
import { api, got, type Schemas } from "@/api/client";
import { markets } from "@/api/market";
import { useOperation } from "@/api/operation";
import { Badge } from "@/components/Badge";
import { ActButton } from "@/components/Button";
import { Card } from "@/components/Card";
import { ConfirmDialog } from "@/components/ConfirmDialog";
import { Empty, Loaded, ProblemBox } from "@/components/feedback";
import { Count, dollars, Time, Usd } from "@/components/figures";
import { TableBox } from "@/components/TableBox";

type Quarantined = Schemas["Quarantined"];

/** How asking each cloud went, and the prices that nobody believes until somebody vouches for them. */
export function Clouds() {
  const asked = useQuery(markets());
  const client = useQueryClient();
  const [vouched, setVouched] = useState<Quarantined | null>(null);
  const refresh = useOperation(() => got(api.POST("/api/v1/offers:refresh", { body: { clouds: [] } })), ["offers", "markets"]);
  const doubted = (asked.data?.items ?? []).flatMap((cloud) => cloud.quarantined);
  return (
    <div className="stack">
      <Card
        title="Clouds"
        flush
        side={
          <ActButton operation="refresh_offers" small onClick={() => refresh.begin(undefined)} refusal={refresh.isBusy ? "They are being asked now." : ""}>
            <RefreshCw size={13} aria-hidden />
            {refresh.isBusy ? (refresh.operation?.progress || "Asking…") : "Ask now"}
          </ActButton>
        }
      >
        {refresh.error && <ProblemBox error={refresh.error} />}
        {refresh.operation?.problem && <ProblemBox error={new Error(refresh.operation.problem.detail)} />}
        <Loaded query={asked}>
          {({ items }) =>
            items.length ? (
              <TableBox label="Clouds">
                <table>
                  <thead>
                    <tr>
                      <th scope="col">Cloud</th>
                      <th scope="col" className="right">Offers</th>
                      <th scope="col">Answered</th>
                      <th scope="col">State</th>
                    </tr>
                  </thead>
                  <tbody>
                    {items.map((cloud) => (
                      <tr key={cloud.cloud}>
                        <td>
                          <div className="strong">{cloud.cloud}</div>
                          <div className="muted">{cloud.source}</div>
                        </td>
                        <td className="right"><Count value={cloud.offers} /></td>
                        <td><Time at={cloud.succeeded_at} ago none="never" /></td>
                        <td>
                          {cloud.left_out ? <Badge tone="bad" dot>left out</Badge> : cloud.failure ? <Badge tone="warn" dot>last attempt failed</Badge> : <Badge tone="good" dot>planned with</Badge>}
                          <div className="muted break">{cloud.left_out || cloud.failure || cloud.notes.join("; ")}</div>
                        </td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              </TableBox>
            ) : (
              <Empty compact title="No cloud was asked yet">
                Prices are the dated ones that ship with Medley. “Ask now” asks with the credentials of the control plane's machine.
              </Empty>
            )
          }
        </Loaded>
      </Card>
      <Card title="Quarantined prices" flush>
        {doubted.length ? (
          <TableBox label="Quarantined prices">
            <table>
              <thead>
                <tr>
                  <th scope="col">Offer</th>
                  <th scope="col" className="right">Price</th>
                  <th scope="col">Why</th>
                  <th scope="col"><span className="sr">Actions</span></th>
                </tr>
              </thead>
              <tbody>
                {doubted.map((each) => (
                  <tr key={each.offer}>
                    <td className="break">{each.offer}</td>
                    <td className="right"><Usd value={each.usd_per_hour} per="h" /></td>
                    <td className="break">{each.reason}</td>
                    <td className="right">
                      <ActButton operation="accept_offer" small onClick={() => setVouched(each)}>Accept</ActButton>
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </TableBox>
        ) : (
          <Empty compact title="None">No suspicious prices.</Empty>
        )}
      </Card>
      <ConfirmDialog
        open={vouched !== null}
        onClose={() => setVouched(null)}
        title="Vouch for this price?"
        text={vouched && `${vouched.offer} at ${dollars(vouched.usd_per_hour)} an hour: ${vouched.reason}. Plans will rent it at that price from now on.`}
        act="Accept the price"
        onConfirm={async () => {
          if (vouched) await got(api.POST("/api/v1/offers:accept", { body: { offer: vouched.offer } }));
          await client.invalidateQueries({ predicate: ({ queryKey }) => ["offers", "markets"].includes(String(queryKey[0])) });
        }}
      />
    </div>
  );
}
