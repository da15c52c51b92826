import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { useAddress } from "@/address";
import { type By, cost } from "@/api/ledger";
import { costSeries } from "@/api/queries";
import { Card, Stat } from "@/components/Card";
import { Chart } from "@/components/Chart";
import { Empty, Loaded, Warning } from "@/components/feedback";
import { Count, dollars, Num, percent, Usd } from "@/components/figures";
import { Meter } from "@/components/Meter";
import { rateOver } from "@/components/rate";
import { Segments } from "@/components/Segments";
import { TableBox } from "@/components/TableBox";
import { Page } from "@/layout/Page";
import { Budgets } from "./Budgets";
import { Ladder } from "./Ladder";
import { Use } from "./Use";

const BY: readonly { value: By; label: string }[] = [
  { value: "model", label: "Model" },
  { value: "project", label: "Project" },
  { value: "fleet", label: "Fleet" },
  { value: "cloud", label: "Cloud" },
  { value: "market", label: "Market" },
];
const SPANS = [
  { value: "month", label: "This month" },
  { value: "7d", label: "7 days" },
  { value: "24h", label: "24 hours" },
] as const;
type Span = (typeof SPANS)[number]["value"];
const POINTS = 48;

/** What was spent, on what, how fast; and the budgets that hold it. */
export default function Cost() {
  const [said, say] = useAddress();
  const by = BY.find(({ value }) => value === said.get("by"))?.value ?? "model";
  const span: Span = SPANS.find(({ value }) => value === said.get("span"))?.value ?? "month";
  const since = useMemo(() => beginOf(span), [span]);
  const report = useQuery(cost(by, span === "month" ? undefined : since));
  const series = useQuery(costSeries(POINTS, since));
  return (
    <Page title="Cost">
      <Loaded query={report} height={90}>
        {(read) => (
          <>
            {(read.leaked_nodes > 0 || read.leaked_usd > 0) && (
              <Warning>
                {read.leaked_nodes} nodes exist that no row explains, {dollars(read.leaked_usd)} in this span. The reconciler gives back what carries this installation's tag; look into the cloud's own console for the rest.
              </Warning>
            )}
            {read.unpriced_node_hours > 0 && (
              <Warning>Nobody knows the price of <Num value={read.unpriced_node_hours} /> node hours: the figures lack them.</Warning>
            )}
            <div className="grid stats">
              <Stat name="Burn rate now" note={<><Count value={read.nodes} /> nodes</>}>
                <Usd value={read.usd_per_hour} per="h" />
              </Stat>
              <Stat name="Today" note="since midnight, UTC">
                <Usd value={read.today_usd} />
              </Stat>
              <Stat name="This month" note="since its first day, UTC">
                <Usd value={read.month_usd} />
              </Stat>
              <Stat name="By the month's end" note="at the current rate">
                <Usd value={read.month_forecast_usd} />
              </Stat>
            </div>
          </>
        )}
      </Loaded>
      <div className="toolbar">
        <Segments label="Span" value={span} onChange={(next) => say({ span: next })} options={SPANS} />
        <Segments label="By" value={by} onChange={(next) => say({ by: next })} options={BY} />
      </div>
      <Card title="Burn rate">
        <Loaded query={series} height={180}>
          {({ items }) => (
            <Chart
              label={`Dollars an hour, ${items.length} points, now ${dollars(report.data?.usd_per_hour ?? items.at(-1)?.usd_per_hour ?? 0)}`}
              {...rateOver(items, report.data?.usd_per_hour)}
              format={dollars}
            />
          )}
        </Loaded>
      </Card>
      <Card title={`Ledger by ${by}`} flush>
        <Loaded query={report}>
          {(read) =>
            read.lines.length ? (
              <TableBox label="Ledger">
                <table>
                  <thead>
                    <tr>
                      <th scope="col">{BY.find(({ value }) => value === by)?.label}</th>
                      <th scope="col" className="right">Spent</th>
                      <th scope="col">Share</th>
                      <th scope="col" className="right">Now</th>
                      <th scope="col" className="right">Nodes</th>
                    </tr>
                  </thead>
                  <tbody>
                    {read.lines.map((line) => (
                      <tr key={line.name}>
                        <td className="break">{line.name || "(not known)"}</td>
                        <td className="right"><Usd value={line.usd} /></td>
                        <td style={{ minWidth: 120 }}>
                          <Meter label={`${line.name}: ${percent(read.usd ? line.usd / read.usd : 0)} of what was spent`} share={read.usd ? line.usd / read.usd : 0} />
                        </td>
                        <td className="right"><Usd value={line.usd_per_hour} per="h" /></td>
                        <td className="right"><Count value={line.nodes} /></td>
                      </tr>
                    ))}
                  </tbody>
                  <tfoot>
                    <tr>
                      <th scope="row">All</th>
                      <td className="right strong"><Usd value={read.usd} /></td>
                      <td />
                      <td className="right strong"><Usd value={read.usd_per_hour} per="h" /></td>
                      <td className="right strong"><Count value={read.nodes} /></td>
                    </tr>
                  </tfoot>
                </table>
              </TableBox>
            ) : (
              <Empty compact title="Nothing was spent in this span">A fleet in mode observe plans and rents nothing.</Empty>
            )
          }
        </Loaded>
      </Card>
      <Use since={since} />
      <Budgets />
      <Ladder />
    </Page>
  );
}

function beginOf(span: Span): string {
  const now = new Date();
  if (span === "month") return new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), 1)).toISOString();
  return new Date(now.getTime() - (span === "7d" ? 168 : 24) * 3_600_000).toISOString();
}
