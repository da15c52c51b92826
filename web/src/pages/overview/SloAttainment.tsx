import { useQueries } from "@tanstack/react-query";
import type { Schemas } from "@/api/client";
import { slo } from "@/api/queries";
import { Badge, type Tone } from "@/components/Badge";
import { Card } from "@/components/Card";
import { Sparkline } from "@/components/Chart";
import { Empty, Skeleton } from "@/components/feedback";
import { Millis, Percent } from "@/components/figures";
import { TableBox } from "@/components/TableBox";
import { Promises } from "./Promises";

type Attainment = Schemas["Attainment"];
const POINTS = 12;

/** How the objectives of every model are kept, over the last hour. */
export function SloAttainment({ fleets }: { fleets: Schemas["Fleet"][] }) {
  const asked = useQueries({ queries: fleets.map((fleet) => slo(fleet.name, POINTS)) });
  const rows = asked.flatMap((query, place) => (query.data?.models ?? []).map((model) => ({ fleet: fleets[place]?.name ?? "", model })));
  const seen = rows.some(({ model }) => model.ttft.observed > 0);
  return (
    <>
      <Card title="Objectives kept, last hour" flush>
        {asked.some((query) => query.isPending) ? (
          <Skeleton height={90} />
        ) : !seen ? (
          <Empty title="No request was observed" compact>
            <p>
              Latencies come from gateways: start <code>medley api --gateway URL</code>, and send requests there.
            </p>
          </Empty>
        ) : (
          <TableBox label="Objectives">
            <table>
              <thead>
                <tr>
                  <th>Model</th>
                  <th>Objective</th>
                  <th className="right">p50</th>
                  <th className="right">p99</th>
                  <th className="right">Limit</th>
                  <th className="right">Within</th>
                  <th>Misses against the allowed</th>
                  <th>Last hour</th>
                </tr>
              </thead>
              <tbody>
                {rows.flatMap(({ fleet, model }) =>
                  (["ttft", "tpot"] as const).map((which) => {
                    const hour = model[which];
                    return (
                      <tr key={`${fleet} ${model.model} ${which}`}>
                        <td className="name">
                          {which === "ttft" && (
                            <>
                              <div className="clip strong" title={model.model}>
                                {model.model}
                              </div>
                              <div className="clip muted" title={fleet}>
                                {fleet}
                              </div>
                            </>
                          )}
                        </td>
                        <td>{which.toUpperCase()}</td>
                        <td className="right">
                          <Millis value={hour.p50_ms} />
                        </td>
                        <td className="right">
                          <Millis value={hour.p99_ms} />
                        </td>
                        <td className="right nowrap">
                          <Millis value={which === "ttft" ? model.ttft_ms : model.tpot_ms} /> <span className="muted">p{model.percentile}</span>
                        </td>
                        <td className="right">
                          <Percent value={hour.within} />
                        </td>
                        <td>
                          <Burn span={hour} />
                        </td>
                        <td className="spark-cell">
                          <Sparkline label={`${which} p99 over the last hour`} values={model.items.flatMap((item) => item[which].p99_ms ?? [])} />
                        </td>
                      </tr>
                    );
                  }),
                )}
              </tbody>
            </table>
          </TableBox>
        )}
      </Card>
      <Promises rows={rows.flatMap(({ fleet, model }) => model.promises.map((promise) => ({ fleet, promise })))} />
    </>
  );
}

function Burn({ span }: { span: Attainment }) {
  if (span.burn_rate == null) return <span className="muted">–</span>;
  const tone: Tone = span.burn_rate > 2 ? "bad" : span.burn_rate > 1 ? "warn" : "good";
  const text = `${span.burn_rate.toLocaleString(undefined, { maximumFractionDigits: 2 })}×`;
  return (
    <Badge tone={tone} dot>
      <data value={span.burn_rate}>{text}</data>
    </Badge>
  );
}
