import { useQueries } from "@tanstack/react-query";
import { Link } from "react-router";
import type { Schemas } from "@/api/client";
import { plan } from "@/api/queries";
import { Stat } from "@/components/Card";
import { Count, Num, Percent, Usd } from "@/components/figures";
import { Skeleton } from "@/components/feedback";

type HeadlineProps = { fleets: Schemas["Fleet"][]; instances: Schemas["InstanceView"][] | undefined };

/** What all of it comes to, in four figures. */
export function Headline({ fleets, instances }: HeadlineProps) {
  const held = fleets.filter((fleet) => fleet.plan.accepted);
  const plans = useQueries({ queries: held.map((fleet) => plan(fleet.plan.accepted)) }).map((query) => query.data);
  const known = plans.filter((each) => each !== undefined);
  const compared = known.filter((each) => each.saving);
  const saved = compared.reduce((sum, each) => sum + (each.saving?.usd_per_hour ?? 0), 0);
  const against = compared.reduce((sum, each) => sum + (each.saving?.baseline_usd_per_hour ?? 0), 0);
  const planned = known.reduce((sum, each) => sum + each.usd_per_hour, 0);
  const waiting = fleets.filter((fleet) => fleet.plan.proposed);
  const ready = instances?.filter((one) => one.state === "ready");
  return (
    <div className="grid stats">
      <Stat name="Planned cost" note={`${known.length} of ${fleets.length} fleets are held to a plan`}>
        {known.length < plans.length ? <Skeleton height={26} width={110} /> : <Usd value={planned} per="h" />}
      </Stat>
      <Stat
        name="Saved against homogeneous fleets"
        note={
          compared.length ? (
            <>
              <Percent value={against ? saved / against : 0} /> of <Usd value={against} per="h" />, the cheapest that serves as much
            </>
          ) : (
            "no plan was compared with a fleet that serves as much"
          )
        }
      >
        {known.length < plans.length ? <Skeleton height={26} width={110} /> : <Usd value={compared.length ? saved : null} per="h" />}
      </Stat>
      <Stat name="Instances ready" note={<Moving instances={instances ?? []} />}>
        {ready ? (
          <>
            <Count value={ready.length} />
            <small>
              {" of "}
              <Count value={instances?.length} />
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
        {instances ? (
          <>
            <Num value={instances.reduce((sum, one) => sum + one.running, 0)} />
            <small>
              {", "}
              <Num value={instances.reduce((sum, one) => sum + one.waiting, 0)} /> waiting
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

function Moving({ instances }: { instances: Schemas["InstanceView"][] }) {
  const of = (...states: string[]) => instances.filter((one) => states.includes(one.state)).length;
  const words = [
    [of("requested", "provisioning", "bootstrapping", "loading"), "coming"],
    [of("draining", "terminating"), "going"],
    [of("failed"), "failed"],
  ] as const;
  const told = words.filter(([count]) => count > 0);
  return <>{told.length ? told.map(([count, word]) => `${count} ${word}`).join(", ") : "none comes or goes"}</>;
}
