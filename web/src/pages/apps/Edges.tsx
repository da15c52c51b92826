import type { PlannedApp } from "@/api/apps";
import { Card } from "@/components/Card";
import { Num } from "@/components/figures";
import { TableBox } from "@/components/TableBox";

/** What components give each other, and how much of that leaves an executor, or a zone. */
export function Edges({ app }: { app: PlannedApp }) {
  if (!app.edges.length) return null;
  return (
    <Card title="Edges" flush>
      <TableBox label="Edges">
        <table>
          <thead>
            <tr>
              <th scope="col">From</th>
              <th scope="col">To</th>
              <th scope="col">Sent</th>
              <th scope="col" className="right">Requests/s</th>
              <th scope="col" className="right">To another executor</th>
              <th scope="col" className="right">Bytes/s</th>
              <th scope="col" className="right">Between zones, bytes/s</th>
            </tr>
          </thead>
          <tbody>
            {app.edges.map((each, number) => (
              <tr key={`${each.source} ${each.target}`}>
                <td className="strong">{each.source}</td>
                <td className="strong">{each.target}</td>
                <td className="muted">{app.graph.edges[number]?.stream ? "as it is made" : "at once"}</td>
                <td className="right"><Num value={each.requests_per_s} /></td>
                <td className="right"><Num value={each.sent_per_s} /></td>
                <td className="right"><Num value={each.bytes_per_s} /></td>
                <td className="right"><Num value={each.zones_bytes_per_s} /></td>
              </tr>
            ))}
          </tbody>
        </table>
      </TableBox>
    </Card>
  );
}
