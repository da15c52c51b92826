import { Link } from "react-router";
import type { Schemas } from "@/api/client";
import { Badge } from "@/components/Badge";
import { Card } from "@/components/Card";
import { Empty } from "@/components/feedback";
import { Count, Num, Usd } from "@/components/figures";
import { NodeBill } from "@/components/NodeBill";
import { TableBox } from "@/components/TableBox";

/** What the plan runs where, the dearest first. */
export function Planned({ plan }: { plan: Schemas["Plan"] }) {
  const rows = plan.instances.toSorted((a, b) => b.usd_per_hour - a.usd_per_hour);
  return (
    <Card title="Instances" flush side={<span className="hint">{<Usd value={plan.usd_per_hour} per="h" />}</span>}>
      {rows.length === 0 ? (
        <Empty title="It runs nothing" compact />
      ) : (
        <TableBox label="Planned instances" className="planned">
          <table>
            <thead>
              <tr>
                <th>Model</th>
                <th>Phase</th>
                <th>Nodes of one</th>
                <th>Where</th>
                <th className="right">Count</th>
                <th className="right">Ran already</th>
                <th className="right">Units/s of one</th>
                <th className="right">Rent and disks</th>
              </tr>
            </thead>
            <tbody>
              {rows.map((row) => (
                <tr key={row.template_id + row.zone + row.market}>
                  <td className="name">
                    <span className="clip" title={row.model}>
                      {row.model}
                    </span>
                  </td>
                  <td>{row.phase}</td>
                  <td>
                    <Link to={`/templates/${row.template_id}`} className="bill">
                      <NodeBill nodes={row.nodes} />
                    </Link>
                  </td>
                  <td className="nowrap">
                    {row.zone} <Badge tone={row.market === "spot" ? "accent" : "plain"}>{row.market}</Badge>
                  </td>
                  <td className="right">
                    <Count value={row.count} />
                  </td>
                  <td className="right">
                    <Count value={row.running} />
                  </td>
                  <td className="right">
                    <Num value={Object.values(row.units_per_s).reduce((sum, units) => sum + units, 0)} />
                  </td>
                  <td className="right">
                    <Usd value={row.usd_per_hour} per="h" />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </TableBox>
      )}
      {plan.step_time_lines.map((line) => (
        <p key={line} className="hint">
          Step times: {line}
        </p>
      ))}
    </Card>
  );
}
