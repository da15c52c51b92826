import { useQuery } from "@tanstack/react-query";
import { Link } from "react-router";
import type { Schemas } from "@/api/client";
import { plan as planOf } from "@/api/queries";
import { Card, Stat } from "@/components/Card";
import { Loaded, Skeleton, Warning } from "@/components/feedback";
import { Count, Percent, Seconds, Time, Usd } from "@/components/figures";
import { DemandBeside, NodesBeside } from "@/components/PlansBeside";

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
          <NodesBeside now={now} then={then} />
        </Card>
        <Card title="Demand" flush>
          <DemandBeside now={now} then={then} />
        </Card>
      </div>
      <p className="muted">
        <Link to={`/plans/${then.id}`}>The whole plan {then.id.slice(0, 12)}</Link>, with its reasons.
      </p>
    </>
  );
}
