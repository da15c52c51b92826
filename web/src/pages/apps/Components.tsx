import type { PlannedApp } from "@/api/apps";
import { Card } from "@/components/Card";
import { Num, Percent, percent, Usd } from "@/components/figures";
import { Meter } from "@/components/Meter";
import { TableBox } from "@/components/TableBox";

const FULL = 0.9;

/** What each component carries and costs. */
export function Components({ app }: { app: PlannedApp }) {
  const facts = new Map(app.graph.components.map((each) => [each.component, each]));
  return (
    <Card title="Components" flush>
      <TableBox label="Components">
        <table>
          <thead>
            <tr>
              <th scope="col">Component</th>
              <th scope="col">Works in</th>
              <th scope="col" className="right">Weights, GiB</th>
              <th scope="col" className="right">Requests/s</th>
              <th scope="col" className="right">Load</th>
              <th scope="col" aria-label="Load as a bar" />
              <th scope="col" className="right">Executors</th>
              <th scope="col" className="right">Alone</th>
              <th scope="col" className="right">With others</th>
            </tr>
          </thead>
          <tbody>
            {app.components.map((each) => (
              <tr key={each.component}>
                <td>
                  <div className="strong">{each.component}</div>
                  <div className="muted">{facts.get(each.component)?.kind}</div>
                </td>
                <td className="muted">{facts.get(each.component)?.unit.replace("_", " ")}s</td>
                <td className="right"><Num value={facts.get(each.component)?.weight_gib} /></td>
                <td className="right"><Num value={each.requests_per_s} /></td>
                <td className="right"><Percent value={each.load} /></td>
                <td className="gauge">
                  {each.load != null && (
                    <Meter label={`${each.component}: ${percent(each.load)} of its capacity`} share={each.load} tone={each.load > FULL ? "warn" : "accent"} />
                  )}
                </td>
                <td className="right"><Num value={each.executors} /></td>
                <td className="right"><Usd value={each.usd_per_hour} per="h" /></td>
                <td className="right"><Usd value={each.shared_usd_per_hour} per="h" /></td>
              </tr>
            ))}
          </tbody>
        </table>
      </TableBox>
      <p className="hint">Load: of the fullest work that the component does, alone or with others. Executors that compute several components count for each of them.</p>
    </Card>
  );
}
