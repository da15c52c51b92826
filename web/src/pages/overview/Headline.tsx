import { useQueries } from "@tanstack/react-query";
import { Link } from "react-router";
import type { Schemas } from "@/api/client";
import { plan } from "@/api/queries";
import { baselineName, uncompared } from "@/components/baseline";
import { Stat } from "@/components/Card";
import { Count, Num, Percent, Usd } from "@/components/figures";
import { Skeleton } from "@/components/feedback";

type Headcount = Schemas["Headcount"];
type HeadlineProps = { fleets: Schemas["Fleet"][]; now: Headcount | undefined };

/** What all of it comes to, in four figures. */
export function Headline({ fleets, now }: HeadlineProps) {
  const held = fleets.filter((fleet) => fleet.plan.accepted);
  const plans = useQueries({ queries: held.map((fleet) => plan(fleet.plan.accepted)) }).map((query) => query.data);
  const known = plans.filter((each) => each !== undefined);
  const compared = known.filter((each) => each.saving);
  const saved = compared.reduce((sum, each) => sum + (each.saving?.usd_per_hour ?? 0), 0);
  const against = compared.reduce((sum, each) => sum + (each.saving?.baseline_usd_per_hour ?? 0), 0);
  const planned = known.reduce((sum, each) => sum + each.usd_per_hour, 0);
  const waiting = fleets.filter((fleet) => fleet.plan.proposed);
  return (
    <div className="grid stats">
      <Stat name="Planned cost" note={`${known.length} of ${fleets.length} fleets have an accepted plan`}>
        {known.length < plans.length ? <Skeleton height={26} width={110} /> : <Usd value={planned} per="h" />}
      </Stat>
      <Stat
        name="Saved against homogeneous fleets"
        note={
          compared.length ? (
            <>
              <Percent value={against ? saved / against : 0} /> of <Usd value={against} per="h" />,{" "}
              {[...new Set(compared.map((each) => baselineName(each.saving?.baseline ?? "")))].join("; ")}
            </>
          ) : (
            uncompared(known)
          )
        }
      >
        {known.length < plans.length ? <Skeleton height={26} width={110} /> : <Usd value={compared.length ? saved : null} per="h" />}
      </Stat>
      <Stat name="Instances ready" note={now && <Moving states={now.states} />}>
        {now ? (
          <>
            <Count value={now.states.ready ?? 0} />
            <small>
              {" of "}
              <Count value={Object.values(now.states).reduce((sum, count) => sum + count, 0)} />
            </small>
          </>
        ) : (
          <Skeleton height={26} width={110} />
        )}
      </Stat>
      <Stat
        name="Requests running"
        note={
          waiting.length ? (
            <Link to={`/plans?fleet=${encodeURIComponent(waiting[0]?.name ?? "")}`}>
              {waiting.length === 1 ? `A plan of ${brief(waiting[0]?.name ?? "")} waits for approval` : `${waiting.length} plans wait for approval`}
            </Link>
          ) : (
            "no plan waits for approval"
          )
        }
      >
        {now ? (
          <>
            <Num value={now.running} />
            <small>
              {", "}
              <Num value={now.waiting} /> waiting
            </small>
          </>
        ) : (
          <Skeleton height={26} width={110} />
        )}
      </Stat>
    </div>
  );
}

function brief(name: string): string {
  return name.length > 40 ? `${name.slice(0, 39)}…` : name;
}

function Moving({ states }: { states: Headcount["states"] }) {
  const of = (...names: string[]) => names.reduce((sum, name) => sum + (states[name] ?? 0), 0);
  const words = [
    [of("requested", "provisioning", "bootstrapping", "loading"), "starting"],
    [of("draining", "terminating"), "stopping"],
    [of("failed"), "failed"],
  ] as const;
  const told = words.filter(([count]) => count > 0);
  return <>{told.length ? told.map(([count, word]) => `${count} ${word}`).join(", ") : "none starting or stopping"}</>;
}
