import type { Schemas } from "@/api/client";
import { Num, Percent } from "@/components/figures";
import { NowThenTable } from "@/components/NowThenTable";

/** What ready instances sustain by work class, now and then. */
export function CapacityChange({ diff }: { diff: Schemas["PlanDiff"] }) {
  const names = [...new Set([...Object.keys(diff.units_per_s_before), ...Object.keys(diff.units_per_s_after)])].sort();
  const rows = names.map((name) => {
    const before = diff.units_per_s_before[name] ?? 0;
    const after = diff.units_per_s_after[name] ?? 0;
    return {
      key: name,
      name: <span className="break">{name}</span>,
      now: <Num value={before} />,
      then: <Num value={after} />,
      last: before ? <Percent value={after / before - 1} sign /> : "new",
      isWorse: after < before,
    };
  });
  return <NowThenTable name="Work" rows={rows} />;
}
