import { useQuery } from "@tanstack/react-query";
import { Link } from "react-router";
import type { Schemas } from "@/api/client";
import { plan as planOf } from "@/api/queries";
import { Card } from "@/components/Card";
import { DemandBeside, ModelsBeside, NodesBeside } from "@/components/PlansBeside";

/** A plan beside the one that its fleet is held to; nothing where there is none, or it is that one. */
export function BeforeAfter({ plan, fleet }: { plan: Schemas["Plan"]; fleet: Schemas["Fleet"] }) {
  const before = fleet.plan.accepted === plan.id ? "" : fleet.plan.accepted;
  const held = useQuery(planOf(before)).data;
  if (!before || !held) return null;
  return (
    <Card title="Before and after" side={<span className="muted">in force now: <Link className="mono" to={`/plans/${held.id}`}>{held.id.slice(0, 12)}</Link></span>} flush>
      <ModelsBeside now={held} then={plan} />
      <div className="grid two sides">
        <NodesBeside now={held} then={plan} />
        <DemandBeside now={held} then={plan} />
      </div>
    </Card>
  );
}
