import type { Schemas } from "@/api/client";
import { baselineName, uncompared } from "@/components/baseline";
import { Stat } from "@/components/Card";
import { Count, Percent, Usd } from "@/components/figures";

/** What a plan comes to that is compared with nothing that runs. */
export function Figures({ plan }: { plan: Schemas["Plan"] }) {
  return (
    <div className="grid stats">
      <Stat name="Cost">
        <Usd value={plan.usd_per_hour} per="h" />
      </Stat>
      <Stat name="Saved" note={plan.saving ? <>against {baselineName(plan.saving.baseline)}</> : uncompared([plan])}>
        <Usd value={plan.saving?.usd_per_hour} per="h" />
      </Stat>
      <Stat name="Instances">
        <Count value={plan.summary.instances} />
      </Stat>
      <Stat name="Not served" note="of all requests">
        <Percent value={plan.unmet_share} />
      </Stat>
    </div>
  );
}
