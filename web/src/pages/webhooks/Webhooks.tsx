import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useRefusal } from "@/api/session";
import { type Webhook, webhooks } from "@/api/webhooks";
import { Badge } from "@/components/Badge";
import { ActButton } from "@/components/Button";
import { Card } from "@/components/Card";
import { Empty, Loaded } from "@/components/feedback";
import { Count } from "@/components/figures";
import { TableBox } from "@/components/TableBox";
import { Page } from "@/layout/Page";
import { TryButton } from "./TryButton";
import { WebhookDialog } from "./WebhookDialog";

/** Where alerts are sent, and what waits to be. */
export default function Webhooks() {
  const refusal = useRefusal("list_webhooks");
  const [edited, setEdited] = useState<Webhook | "new" | null>(null);
  return (
    <Page title="Webhooks">
      <Card
        title="Webhooks"
        flush
        side={
          <ActButton operation="put_webhook" tone="primary" small onClick={() => setEdited("new")}>
            New webhook
          </ActButton>
        }
      >
        {refusal ? <Empty compact title="Webhooks are for admins to see">{refusal}</Empty> : <WebhookTable onEdit={setEdited} />}
      </Card>
      {edited && <WebhookDialog webhook={edited === "new" ? null : edited} onClose={() => setEdited(null)} />}
    </Page>
  );
}

function WebhookTable({ onEdit }: { onEdit: (webhook: Webhook) => void }) {
  const read = useQuery(webhooks());
  return (
    <Loaded query={read} height={160}>
      {({ items }) =>
        items.length === 0 ? (
          <Empty title="Alerts are sent nowhere">
            <p>A webhook gets every alert when it is opened, escalated and resolved, signed with a key of your own, so that a stock-out or a leak reaches whoever is on call.</p>
          </Empty>
        ) : (
          <TableBox label="Webhooks">
            <table>
              <thead>
                <tr>
                  <th scope="col">Name</th>
                  <th scope="col">Address</th>
                  <th scope="col">Alerts</th>
                  <th scope="col">Key</th>
                  <th scope="col" className="right">Waiting</th>
                  <th scope="col"><span className="sr">Actions</span></th>
                </tr>
              </thead>
              <tbody>
                {items.map((each) => (
                  <tr key={each.name}>
                    <td className="name"><span className="strong clip" title={each.name}>{each.name}</span></td>
                    <td className="break mono">
                      {each.url} {each.internal && <Badge>internal</Badge>}
                    </td>
                    <td className="break">{each.kinds.length ? each.kinds.join(", ") : "all"}</td>
                    <td className="mono break">{each.secret}</td>
                    <td className="right">
                      <Count value={each.waiting} />
                      {each.because && <div className="muted break">{each.because}</div>}
                    </td>
                    <td className="right">
                      <span className="row acts">
                        <TryButton webhook={each.name} />
                        <ActButton operation="put_webhook" small aria-label={`Change ${each.name}`} onClick={() => onEdit(each)}>
                          Change…
                        </ActButton>
                      </span>
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </TableBox>
        )
      }
    </Loaded>
  );
}
