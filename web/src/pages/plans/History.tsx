import type { UseQueryResult } from "@tanstack/react-query";
import { Link } from "react-router";
import type { Schemas } from "@/api/client";
import { Badge } from "@/components/Badge";
import { Card } from "@/components/Card";
import { Empty, Loaded } from "@/components/feedback";
import { Count, Percent, Seconds, Time, Usd } from "@/components/figures";
import { TableBox } from "@/components/TableBox";

type HistoryProps = { fleet: Schemas["Fleet"]; plans: UseQueryResult<Schemas["Page_PlanItem_"]>; chosen: string };

/** Plans that were made of the fleet, the newest first. */
export function History({ fleet, plans, chosen }: HistoryProps) {
  return (
    <Card title="History" flush>
      <Loaded query={plans}>
        {({ items }) =>
          items.length === 0 ? (
            <Empty title="No plan yet" compact />
          ) : (
            <TableBox label="Plans">
              <table>
                <thead>
                  <tr>
                    <th>Plan</th>
                    <th>Made</th>
                    <th>Status</th>
                    <th className="right">Instances</th>
                    <th className="right">Gap</th>
                    <th className="right">Took</th>
                    <th className="right">Saved</th>
                    <th className="right">Cost</th>
                  </tr>
                </thead>
                <tbody>
                  {items.map((item) => (
                    <tr key={item.id} aria-current={item.id === chosen ? "true" : undefined}>
                      <td className="nowrap">
                        <Link className="mono" to={`/plans/${item.id}`}>
                          {item.id.slice(0, 12)}
                        </Link>{" "}
                        {item.id === fleet.plan.proposed && <Badge tone="accent">waits</Badge>}
                        {item.id === fleet.plan.accepted && <Badge tone="good">held to</Badge>}
                      </td>
                      <td>
                        <Time at={item.created_at} />
                      </td>
                      <td>
                        {item.proof}
                        {Object.keys(item.summary.unmet).length > 0 && <span className="warn">, demand unmet</span>}
                      </td>
                      <td className="right">
                        <Count value={item.summary.instances} />
                      </td>
                      <td className="right">
                        <Percent value={item.summary.gap} />
                      </td>
                      <td className="right">
                        <Seconds value={item.summary.solve_s} />
                      </td>
                      <td className="right">
                        <Usd value={item.saving?.usd_per_hour} per="h" />
                      </td>
                      <td className="right">
                        <Usd value={item.usd_per_hour} per="h" />
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </TableBox>
          )
        }
      </Loaded>
    </Card>
  );
}
