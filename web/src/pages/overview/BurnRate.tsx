import { useQuery } from "@tanstack/react-query";
import { useAddress } from "@/address";
import { cost } from "@/api/ledger";
import { costSeries } from "@/api/queries";
import { Card } from "@/components/Card";
import { Chart } from "@/components/Chart";
import { Loaded } from "@/components/feedback";
import { dollars, Percent, Usd } from "@/components/figures";
import { rateOver } from "@/components/rate";
import { Segments } from "@/components/Segments";

const SPANS = [
  { value: "1", label: "1 day", points: 48 },
  { value: "7", label: "7 days", points: 84 },
  { value: "30", label: "30 days", points: 90 },
] as const;
type Days = (typeof SPANS)[number]["value"];

/** Dollars an hour as they are spent, now and over time. */
export function BurnRate() {
  const [said, say] = useAddress();
  const span = SPANS.find((each) => each.value === said.get("days")) ?? SPANS[0];
  const days: Days = span.value;
  const series = useQuery(costSeries(span.points, since(Number(days))));
  const report = useQuery(cost("model", undefined));
  return (
    <Card title="Burn rate" side={<Segments label="Span" value={days} onChange={(next) => say({ days: next })} options={SPANS} />}>
      <Loaded query={series} height={212}>
        {({ items }) => {
          const now = report.data?.usd_per_hour;
          const first = items[0]?.usd_per_hour ?? 0;
          const leaked = items.reduce((sum, item) => sum + item.leaked_usd, 0);
          return (
            <>
              <div className="row wrap burn">
                <span className="figure">
                  <Usd value={now} per="h" />
                </span>
                {first > 0 && now !== undefined && (
                  <span className="muted">
                    <Percent value={now / first - 1} sign /> against {span.label} ago
                  </span>
                )}
                {leaked > 0 && (
                  <span className="bad">
                    <Usd value={leaked} /> leaked
                  </span>
                )}
              </div>
              <Chart
                label={`Burn rate over ${span.label}, from ${dollars(first)} to ${now === undefined ? "one that is being read" : dollars(now)} an hour`}
                {...rateOver(items, now)}
                format={dollars}
                height={300}
              />
            </>
          );
        }}
      </Loaded>
    </Card>
  );
}

/** The same for ten minutes, so that what is asked for stays the same. */
function since(days: number): string {
  const step = 600_000;
  return new Date(Math.floor(Date.now() / step) * step - days * 86_400_000).toISOString();
}
