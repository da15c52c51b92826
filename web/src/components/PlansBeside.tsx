import type { Schemas } from "@/api/client";
import { Empty } from "./feedback";
import { Count, Num, Usd } from "./figures";
import { configName, GpuSwatch, gpuOf } from "./gpu";
import { NowThenTable } from "./NowThenTable";

/* Two plans side by side: the one that holds now, and another. */

type Plan = Schemas["Plan"];
type Beside = { now: Plan | undefined; then: Plan };

function nodesOf(plan: Plan | undefined): Map<string, number> {
  const counts = new Map<string, number>();
  for (const instance of plan?.instances ?? []) {
    for (const [config, count] of Object.entries(instance.nodes)) counts.set(config, (counts.get(config) ?? 0) + count * instance.count);
  }
  return counts;
}

export function NodesBeside({ now, then }: Beside) {
  const before = nodesOf(now);
  const after = nodesOf(then);
  const configs = [...new Set([...before.keys(), ...after.keys()])].sort();
  if (!configs.length) return <Empty title="No node either way" compact />;
  const rows = configs.map((config) => {
    const change = (after.get(config) ?? 0) - (before.get(config) ?? 0);
    return {
      key: config,
      name: (
        <span className="row">
          <GpuSwatch gpu={gpuOf(config)} />
          {configName(config)} <span className="muted mono">{config}</span>
        </span>
      ),
      now: <Count value={before.get(config) ?? 0} />,
      then: <Count value={after.get(config) ?? 0} />,
      last: change ? <Count value={change} sign /> : "–",
    };
  });
  return <NowThenTable name="Node" rows={rows} />;
}

export function DemandBeside({ now, then }: Beside) {
  const key = (demand: Plan["demand"][number]) => `${demand.app}/${demand.request_type}`;
  const before = new Map((now?.demand ?? []).map((demand) => [key(demand), demand.requests_per_s]));
  const rows = then.demand.map((demand) => {
    const unmet = then.summary.unmet[key(demand)] ?? 0;
    return {
      key: key(demand),
      name: (
        <span className="clip" title={key(demand)}>
          {key(demand)}
        </span>
      ),
      now: <Num value={before.get(key(demand))} />,
      then: <Num value={demand.requests_per_s} />,
      last: <Num value={unmet} />,
      isWorse: unmet > 0,
    };
  });
  return <NowThenTable name="Demand" now="Now, requests/s" last="Not served" rows={rows} />;
}

/** Instances and dollars of each model in each phase. */
export function ModelsBeside({ now, then }: Beside) {
  const before = modelsOf(now);
  const after = modelsOf(then);
  const names = [...new Set([...before.keys(), ...after.keys()])].sort();
  if (!names.length) return <Empty title="No instance either way" compact />;
  const rows = names.map((name) => {
    const [was, is] = [before.get(name) ?? NOTHING, after.get(name) ?? NOTHING];
    const change = is.usd_per_hour - was.usd_per_hour;
    return {
      key: name,
      name: <span className="break">{name}</span>,
      now: <Side {...was} />,
      then: <Side {...is} />,
      last: Math.abs(change) > 1e-9 ? <Usd value={change} sign /> : "–",
    };
  });
  return <NowThenTable name="Model" rows={rows} />;
}

const NOTHING = { count: 0, usd_per_hour: 0 };

function Side({ count, usd_per_hour }: typeof NOTHING) {
  return (
    <>
      <Count value={count} /> <span className="muted">for</span> <Usd value={usd_per_hour} per="h" />
    </>
  );
}

function modelsOf(plan: Plan | undefined): Map<string, typeof NOTHING> {
  const found = new Map<string, typeof NOTHING>();
  for (const each of plan?.instances ?? []) {
    const name = `${each.model} · ${each.phase}`;
    const so_far = found.get(name) ?? NOTHING;
    found.set(name, { count: so_far.count + each.count, usd_per_hour: so_far.usd_per_hour + each.usd_per_hour });
  }
  return found;
}
