import { useQuery } from "@tanstack/react-query";
import { Link } from "react-router";
import type { Schemas } from "@/api/client";
import { plan as planOf } from "@/api/queries";
import { Card, Stat } from "@/components/Card";
import { Empty, Loaded, Skeleton, Warning } from "@/components/feedback";
import { Count, Num, Percent, Seconds, Time, Usd } from "@/components/figures";
import { configName, GpuSwatch, gpuOf } from "@/components/gpu";
import { NowThenTable } from "@/components/NowThenTable";

type Plan = Schemas["Plan"];

/** A plan of things as they might be, beside the one that the fleet is held to. */
export function Comparison({ base, id }: { base: string; id: string }) {
  const supposed = useQuery(planOf(id));
  const held = useQuery(planOf(base));
  if (base && held.isPending) return <Skeleton height={300} />;
  return (
    <Loaded query={supposed} height={300}>
      {(then) => <Compared now={held.data} then={then} />}
    </Loaded>
  );
}

function Compared({ now, then }: { now: Plan | undefined; then: Plan }) {
  return (
    <>
      {then.unmet_share > 0 && (
        <Warning>
          Then <Percent value={then.unmet_share} /> of all requests would not be served.
        </Warning>
      )}
      <div className="grid stats">
        <Stat
          name="It would cost"
          note={
            now ? (
              <>
                now <Usd value={now.usd_per_hour} per="h" />
              </>
            ) : (
              "the fleet is held to no plan"
            )
          }
        >
          <Usd value={then.usd_per_hour} per="h" />{" "}
          {now && (
            <small>
              <Usd value={then.usd_per_hour - now.usd_per_hour} sign />
            </small>
          )}
        </Stat>
        <Stat name="Instances" note={now && <>now {<Count value={now.summary.instances} />}</>}>
          <Count value={then.summary.instances} />
        </Stat>
        <Stat name="Not served" note={now && <>now {<Percent value={now.unmet_share} />}</>}>
          <Percent value={then.unmet_share} />
        </Stat>
        <Stat
          name="Gap"
          note={
            <>
              {then.proof}, solved <Time at={then.created_at} ago /> in <Seconds value={then.summary.solve_s} />
            </>
          }
        >
          <Percent value={then.summary.gap} />
        </Stat>
      </div>
      <div className="grid two">
        <Card title="Nodes" flush>
          <Nodes now={now} then={then} />
        </Card>
        <Card title="Demand" flush>
          <Demand now={now} then={then} />
        </Card>
      </div>
      <p className="muted">
        <Link to={`/plans/${then.id}`}>The whole plan {then.id.slice(0, 12)}</Link>, with its reasons.
      </p>
    </>
  );
}

function nodesOf(plan: Plan | undefined): Map<string, number> {
  const counts = new Map<string, number>();
  for (const instance of plan?.instances ?? []) {
    for (const [config, count] of Object.entries(instance.nodes)) counts.set(config, (counts.get(config) ?? 0) + count * instance.count);
  }
  return counts;
}

function Nodes({ now, then }: { now: Plan | undefined; then: Plan }) {
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

function Demand({ now, then }: { now: Plan | undefined; then: Plan }) {
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
