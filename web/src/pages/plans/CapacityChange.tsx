import type { Schemas } from "@/api/client";
import { Num, Percent } from "@/components/figures";

/** What ready instances sustain by work class, now and then. */
export function CapacityChange({ diff }: { diff: Schemas["PlanDiff"] }) {
  const names = [...new Set([...Object.keys(diff.units_per_s_before), ...Object.keys(diff.units_per_s_after)])].sort();
  return (
    <div className="table-box">
      <table>
        <thead>
          <tr>
            <th>Work</th>
            <th className="right">Now</th>
            <th className="right">Then</th>
            <th className="right">Change</th>
          </tr>
        </thead>
        <tbody>
          {names.map((name) => {
            const before = diff.units_per_s_before[name] ?? 0;
            const after = diff.units_per_s_after[name] ?? 0;
            return (
              <tr key={name}>
                <td className="name">
                  <span className="clip" title={name}>
                    {name}
                  </span>
                </td>
                <td className="right">
                  <Num value={before} />
                </td>
                <td className="right">
                  <Num value={after} />
                </td>
                <td className={`right ${after < before ? "warn" : ""}`}>{before ? <Percent value={after / before - 1} /> : "new"}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}
