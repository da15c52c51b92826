import { useQuery } from "@tanstack/react-query";
import type { Schemas } from "@/api/client";
import { planDiff } from "@/api/queries";
import { Card } from "@/components/Card";
import { CapacityChange } from "./CapacityChange";
import { Steps } from "./Steps";

type OfPlan = { plan: Schemas["Plan"] };

/** Shared by all that show it; a draft is compared with nothing. */
const useDiff = (plan: Schemas["Plan"]) => useQuery({ ...planDiff(plan.id), enabled: !plan.draft, retry: false }).data;

/** What holding the fleet to the plan would launch, keep and drain. */
export function Changes({ plan }: OfPlan) {
  const diff = useDiff(plan);
  if (!diff) return null;
  return (
    <Card title="What changes" flush>
      <Steps diff={diff} />
    </Card>
  );
}

/** What it would do to what the fleet sustains. */
export function Capacity({ plan }: OfPlan) {
  const diff = useDiff(plan);
  if (!diff) return null;
  return (
    <Card title="Capacity, units/s" flush>
      <CapacityChange diff={diff} />
    </Card>
  );
}
