import { Link } from "react-router";
import type { Schemas } from "@/api/client";
import { Badge } from "@/components/Badge";
import { Percent, Seconds, Time, Usd } from "@/components/figures";

/** When each fleet was planned, how near to the best, and when it is again. */
export function Solves({ solves, fleets }: { solves: Schemas["LastSolve"][]; fleets: Schemas["Fleet"][] }) {
  const proposed = new Set(fleets.map((fleet) => fleet.plan.proposed).filter(Boolean));
  return (
    <ul className="solves">
      {solves.map((solve) => (
        <li key={solve.fleet}>
          <div className="row spread">
            <Link className="strong clip" to={`/plans?fleet=${encodeURIComponent(solve.fleet)}`} title={solve.fleet}>
              {solve.fleet}
            </Link>
            {proposed.has(solve.plan) ? <Badge tone="accent">waits for approval</Badge> : solve.plan ? <Usd value={solve.usd_per_hour} per="h" /> : null}
          </div>
          {solve.summary ? (
            <div className="muted row wrap">
              <span>
                <Time at={solve.planned_at} ago />
              </span>
              <span>
                gap <Percent value={solve.summary.gap} />
              </span>
              <span>
                took <Seconds value={solve.summary.solve_s} />
              </span>
              <Next by={solve.again_by} />
            </div>
          ) : (
            <div className="muted">not planned yet: a control plane does it, or the Plan page</div>
          )}
        </li>
      ))}
    </ul>
  );
}

function Next({ by }: { by: string | null }) {
  if (!by) return null;
  const late = Date.parse(by) < Date.now() - 60_000;
  return (
    <span className={late ? "warn" : ""}>
      {late ? "was due " : "next "}
      <Time at={by} ago />
    </span>
  );
}
