import type { Schemas } from "@/api/client";
import { Badge } from "@/components/Badge";
import { Card } from "@/components/Card";
import { Count, Percent, percent, Time } from "@/components/figures";
import { TableBox } from "@/components/TableBox";

type PromiseOf = Schemas["PromiseOf"];

/** What plans promise beside what answers kept, by work class; nothing where none promises a percentile. */
export function Promises({ rows }: { rows: { fleet: string; promise: PromiseOf }[] }) {
  if (rows.length === 0) return null;
  return (
    <Card title="Promised and kept, last hour" flush>
      <TableBox label="Promises">
        <table>
          <thead>
            <tr>
              <th>Work class</th>
              <th>Objective</th>
              <th className="right">Promised</th>
              <th className="right">Certified</th>
              <th className="right">Kept</th>
              <th className="right">Answers</th>
              <th>Against the promise</th>
              <th className="right">Capacity planned with</th>
            </tr>
          </thead>
          <tbody>
            {rows.flatMap(({ fleet, promise }) => {
              const measured = promise.kept.length > 0 ? promise.kept : [undefined];
              return measured.map((kept) => (
                <tr key={`${fleet} ${promise.work_class} ${kept?.objective ?? ""}`}>
                  <td className="name">
                    <div className="clip strong" title={promise.work_class}>
                      {promise.work_class}
                    </div>
                    <div className="clip muted" title={fleet}>
                      {fleet}
                    </div>
                  </td>
                  <td>{kept?.objective.toUpperCase() ?? "–"}</td>
                  <td className="right">
                    {percent(promise.percentile / 100)}
                  </td>
                  <td className="right">
                    <Percent value={promise.share} />
                  </td>
                  <td className="right nowrap">
                    <Percent value={kept?.share} />
                    {kept && (
                      <div className="muted">
                        <Percent value={kept.low} /> to <Percent value={kept.high} />
                      </div>
                    )}
                  </td>
                  <td className="right">
                    <Count value={kept?.answers} />
                  </td>
                  <td>
                    <Verdict promise={promise} kept={kept} />
                  </td>
                  <td className="right">
                    <Percent value={promise.correction?.factor} none="100%" />
                  </td>
                </tr>
              ));
            })}
          </tbody>
        </table>
      </TableBox>
      {rows.map(({ fleet, promise }) => (
        <Corrected key={`${fleet} ${promise.work_class}`} promise={promise} />
      ))}
    </Card>
  );
}

function Verdict({ promise, kept }: { promise: PromiseOf; kept: PromiseOf["kept"][number] | undefined }) {
  if (!kept) return <span className="muted">no answer yet</span>;
  const promised = Math.min(promise.percentile / 100, promise.share);
  if (kept.high < promised) return <Badge tone="bad" dot>fewer than promised</Badge>;
  if (kept.low > promised) return <Badge tone="good" dot>more than promised</Badge>;
  return <Badge tone="good" dot>as promised</Badge>;
}

/** Says what the loop has made of it. */
function Corrected({ promise }: { promise: PromiseOf }) {
  const correction = promise.correction;
  if (!correction || correction.factor >= 1) return null;
  return (
    <p className="hint">
      <span className="strong">{promise.work_class}</span> is planned with <Percent value={correction.factor} /> of its certified capacity since{" "}
      <Time at={correction.changed_at} />: {correction.reason}.
    </p>
  );
}
