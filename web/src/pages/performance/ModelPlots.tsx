import type { Schemas } from "@/api/client";
import { Badge } from "@/components/Badge";
import { Card } from "@/components/Card";
import { brief, Millis, Num, Percent, percent } from "@/components/figures";
import { type Drawn, Plot } from "./Plot";

type Model = Schemas["ModelSeries"];
type Latency = Schemas["LatencyOf"];
type PlotsProps = { model: Model; at: number[]; onSpan: (begin: number, end: number) => void };

const NAMES = { ttft: "TTFT", tpot: "TPOT" } as const;
const NO_ANSWER = "No gateway measured an answer in this time. Start the API with --gateway URL, and send requests there.";

/** How fast one model answered against its objectives, and how many answers kept them beside what is promised. */
export function ModelPlots({ model, at, onSpan }: PlotsProps) {
  const { latencies, traffic } = model;
  return (
    <Card
      title={
        <span className="row wrap">
          <span className="break">{model.model}</span>
          <span className="muted break">{model.fleet}</span>
        </span>
      }
      side={latencies.length === 0 ? <Badge>does not serve</Badge> : undefined}
    >
      <div className="plots">
        <Plot
          title="Requests a second"
          at={at}
          lines={[
            { name: "asked", colour: "var(--accent)", values: traffic.requests_per_s, fill: true, now: (value) => <Num value={value} /> },
            { name: "refused", colour: "var(--bad)", values: traffic.refused_per_s, now: (value) => <Num value={value} /> },
          ]}
          format={brief}
          none="No gateway reported in this time."
          onSpan={onSpan}
        />
        {latencies.map((each) => (
          <Plot key={each.objective} title={`${NAMES[each.objective]}, ${percent(each.percentile / 100)} within ${brief(each.limit_ms)} ms`} at={at} lines={percentiles(each)} format={millis} none={NO_ANSWER} onSpan={onSpan} />
        ))}
        {latencies.length > 0 && <Plot title="Answers in time: promised and kept" at={at} lines={latencies.flatMap(kept).concat(promised(latencies))} format={percent} none={NO_ANSWER} fromZero={false} onSpan={onSpan} />}
        <Plot
          title="Capacity in use"
          at={at}
          lines={[{ name: "of what is ready", colour: "var(--gpu-1)", values: model.utilisation, fill: true, now: (value) => <Percent value={value} /> }]}
          format={percent}
          none="No instance was ready, or nobody counted what it served."
          onSpan={onSpan}
        />
      </div>
    </Card>
  );
}

function millis(value: number): string {
  return value >= 10_000 ? `${brief(value / 1000)} s` : `${brief(value)} ms`;
}

function percentiles(latency: Latency): Drawn[] {
  const now = (value: number) => <Millis value={value} />;
  const limit = latency.p50_ms.map(() => latency.limit_ms);
  return [
    { name: "p50", colour: "var(--gpu-7)", values: latency.p50_ms, now },
    { name: "p90", colour: "var(--accent)", values: latency.p90_ms, now },
    { name: "p99", colour: "var(--gpu-4)", values: latency.p99_ms, now },
    { name: "objective", colour: "var(--bad)", values: limit, dashed: true, now },
  ];
}

function kept(latency: Latency): Drawn[] {
  const colour = latency.objective === "ttft" ? "var(--accent)" : "var(--gpu-3)";
  return [{ name: NAMES[latency.objective], colour, values: latency.kept, now: (value) => <Percent value={value} /> }];
}

/** Of both objectives the same plan promises the same share. */
function promised(latencies: Latency[]): Drawn[] {
  const share = latencies.map((each) => each.promised).find((each) => each != null);
  const at = latencies[0]?.kept ?? [];
  if (share == null) return [];
  return [{ name: "promised", colour: "var(--bad)", values: at.map(() => share), dashed: true, now: (value) => <Percent value={value} /> }];
}
