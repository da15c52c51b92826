import { useQuery } from "@tanstack/react-query";
import { Navigate, useNavigate, useParams, useSearchParams } from "react-router";
import { api, got, type Schemas } from "@/api/client";
import { useOperation } from "@/api/operation";
import { fleets, plan as planOf, plans } from "@/api/queries";
import { ActButton } from "@/components/Button";
import { Card } from "@/components/Card";
import { Empty, Loaded, ProblemBox, Skeleton, Warning } from "@/components/feedback";
import { Select } from "@/components/Field";
import { Time } from "@/components/figures";
import { OperationState } from "@/components/OperationState";
import { Page } from "@/layout/Page";
import { BeforeAfter } from "./BeforeAfter";
import { Capacity, Changes } from "./Changes";
import { Decision } from "./Decision";
import { Figures } from "./Figures";
import { Explained } from "./Explained";
import { History } from "./History";
import { ObjectiveCosts } from "./ObjectiveCosts";
import { Planned } from "./Planned";
import { Reasons } from "./Reasons";

type Fleet = Schemas["Fleet"];
type Plan = Schemas["Plan"];

export default function Plans() {
  const known = useQuery(fleets());
  const { plan: id } = useParams();
  const [params] = useSearchParams();
  const shown = useQuery(planOf(id ?? ""));
  return (
    <Page title="Plan">
      <Loaded query={known} height={400}>
        {(all) => {
          if (id && !shown.data) {
            // Here and not in a part of the page: one that asks again as it is drawn would be drawn, and ask, for ever.
            return shown.error ? <ProblemBox error={shown.error} retry={() => void shown.refetch()} /> : <Skeleton height={400} />;
          }
          if (shown.data && id !== shown.data.id) return <Navigate to={`/plans/${shown.data.id}?${params}`} replace />;
          const name = shown.data?.fleet ?? params.get("fleet");
          const fleet = name ? all.find((each) => each.name === name) : (all.find((each) => each.plan.proposed) ?? all[0]);
          if (fleet) return <OfFleet key={fleet.name} fleet={fleet} all={all} id={id} />;
          return shown.data ? <OfFile plan={shown.data} /> : <NoFleet name={name} />;
        }}
      </Loaded>
    </Page>
  );
}

function NoFleet({ name }: { name: string | null }) {
  return (
    <Card>
      <Empty title={name ? "That fleet is not there any more" : "No fleet yet"}>
        <p className="break">
          {name ? `${name} was ended or renamed.` : "Create one with medley apply -f SPEC; its plans, and what they would change, are shown here."}
        </p>
      </Empty>
    </Card>
  );
}

/** A plan that `medley plan` made of a file, or whose fleet is gone: it can be read, and nothing can be held to it. */
function OfFile({ plan }: { plan: Plan }) {
  return (
    <>
      <div className="row wrap">
        <h2 className="mono">{plan.id.slice(0, 12)}</h2>
        <span className="muted break">
          {plan.fleet}, made <Time at={plan.created_at} ago /> by {plan.policy} · {plan.proof}
        </span>
      </div>
      <Warning>
        No fleet here is called {plan.fleet}: this plan is of a file (<code>medley plan -f</code>), or its fleet was ended. To run it, create the fleet with{" "}
        <code>medley apply -f</code>.
      </Warning>
      <Figures plan={plan} />
      <div className="grid wide-narrow">
        <Reasons reasons={plan.reasons} />
        <Explained plan={plan} />
      </div>
      <Planned plan={plan} />
    </>
  );
}

function OfFleet({ fleet, all, id }: { fleet: Fleet; all: Fleet[]; id: string | undefined }) {
  const go = useNavigate();
  const made = useQuery(plans(fleet.name));
  const solve = useOperation(() => got(api.POST("/api/v1/plans", { body: { fleet: fleet.name, baselines: true, over_budget: true } })), ["plans", "status"]);
  const newest = made.data?.items[0]?.id;
  const chosen = id ?? (fleet.plan.proposed || fleet.plan.accepted || newest || "");
  const solved = solve.operation?.state === "succeeded" ? String(solve.operation.result?.plan_id ?? "") : "";
  return (
    <>
      <div className="toolbar">
        <Select label="Fleet" value={fleet.name} onChange={(name) => go(`/plans?fleet=${encodeURIComponent(name)}`)} options={all.map((each) => each.name)} />
        <span className="muted">mode {fleet.mode}</span>
        <span className="grow" />
        <ActButton operation="create_plan" onClick={() => solve.begin(undefined)} refusal={solve.isBusy ? "It is being planned." : ""}>
          {solve.isBusy ? "Planning…" : "Plan it now"}
        </ActButton>
      </div>
      <OperationState work={solve} done={solved && solved !== chosen ? { text: "A new plan was made.", to: `/plans/${solved}`, link: "Look at it" } : undefined} />
      {chosen ? (
        <Shown key={chosen} id={chosen} fleet={fleet} />
      ) : made.isPending ? (
        <Skeleton height={300} />
      ) : (
        <Card>
          <Empty title="This fleet was not planned yet">
            <p>A control plane plans it within minutes; “Plan it now” does so at once, and touches nothing.</p>
          </Empty>
        </Card>
      )}
      <History fleet={fleet} plans={made} chosen={chosen} />
    </>
  );
}

function Shown({ id, fleet }: { id: string; fleet: Fleet }) {
  const found = useQuery(planOf(id));
  return (
    <Loaded query={found} height={300}>
      {(plan) => (
        <>
          <Decision plan={plan} fleet={fleet} />
          <BeforeAfter plan={plan} fleet={fleet} />
          <div className="grid wide-narrow">
            <div className="stack">
              <Changes plan={plan} />
              <Reasons reasons={plan.reasons} />
            </div>
            <div className="stack">
              <Explained plan={plan} />
              <ObjectiveCosts plan={plan} fleet={fleet} />
              <Capacity plan={plan} />
            </div>
          </div>
          <Planned plan={plan} />
        </>
      )}
    </Loaded>
  );
}
