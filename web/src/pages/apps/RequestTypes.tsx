import type { PlannedApp } from "@/api/apps";
import { Card } from "@/components/Card";
import { Num, Percent } from "@/components/figures";
import { TableBox } from "@/components/TableBox";

/** Which share each type of request has, and the paths that the plan sends it on. */
export function RequestTypes({ app }: { app: PlannedApp }) {
  return (
    <Card title="Request types and their paths" flush>
      <TableBox label="Request types and their paths">
        <table>
          <thead>
            <tr>
              <th scope="col">Type</th>
              <th scope="col" className="right">Share</th>
              <th scope="col" className="right">Demand, requests/s</th>
              <th scope="col" className="right">Served</th>
              <th scope="col">Paths</th>
            </tr>
          </thead>
          <tbody>
            {app.request_types.map((each) => (
              <tr key={each.request_type}>
                <td className="strong">{each.request_type}</td>
                <td className="right"><Percent value={each.share} /></td>
                <td className="right"><Num value={each.requests_per_s} /></td>
                <td className="right"><Num value={each.served_per_s} /></td>
                <td>
                  <ul>
                    {each.paths.map((path) => (
                      <li key={`${path.route} ${path.zones.join(" ")}`}>
                        <Num value={path.requests_per_s} />/s {path.stages.map((names) => names.join(" + ")).join(" → ")}{" "}
                        <span className="muted">{[...new Set(path.zones)].filter(Boolean).join(" → ")}</span>
                      </li>
                    ))}
                    {!each.paths.length && <li className="muted">none</li>}
                  </ul>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </TableBox>
    </Card>
  );
}
