import { useQuery } from "@tanstack/react-query";
import type { Schemas } from "@/api/client";
import { alerts } from "@/api/queries";
import { Badge } from "@/components/Badge";
import { Card } from "@/components/Card";
import { Empty, Loaded } from "@/components/feedback";
import { Time } from "@/components/figures";

const worstFirst = (items: Schemas["Alert"][]) => items.toSorted((a, b) => Number(b.severity === "critical") - Number(a.severity === "critical"));

/** What somebody should know now. */
export function OpenAlerts() {
  const open = useQuery(alerts());
  return (
    <Card title="Alerts" flush>
      <Loaded query={open}>
        {({ items }) =>
          items.length === 0 ? (
            <Empty title="Nothing is wrong" compact>
              <p>Stock-outs, budgets, leaks and failures would be listed here.</p>
            </Empty>
          ) : (
            <ul tabIndex={0} className="alerts">
              {worstFirst(items).map((alert) => (
                <li key={alert.id}>
                  <div className="row">
                    <span className="fixed">
                      <Badge tone={alert.severity === "critical" ? "bad" : "warn"} dot>
                        {alert.kind}
                      </Badge>
                    </span>
                    <span className="strong clip grow" title={alert.subject}>
                      {alert.subject}
                    </span>
                    <span className="muted">
                      <Time at={alert.opened_at} ago />
                    </span>
                  </div>
                  <div className="break">{alert.text}</div>
                </li>
              ))}
            </ul>
          )
        }
      </Loaded>
    </Card>
  );
}
