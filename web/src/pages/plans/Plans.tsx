import { useQuery } from "@tanstack/react-query";
import { useNavigate, useParams, useSearchParams } from "react-router";
import { api, got, type Schemas } from "@/api/client";
import { useOperation } from "@/api/operation";
import { fleets, plan as planOf, plans } from "@/api/queries";
import { ActButton } from "@/components/Button";
import { Card } from "@/components/Card";
import { Empty, Loaded, Skeleton } from "@/components/feedback";
import { Select } from "@/components/Field";
import { OperationState } from "@/components/OperationState";
import { Page } from "@/layout/Page";
import { Capacity, Changes } from "./Changes";
import { Decision } from "./Decision";
import { Explained } from "./Explained";
import { History } from "./History";
import { ObjectiveCosts } from "./ObjectiveCosts";
import { Planned } from "./Planned";
import { Reasons } from "./Reasons";

type Fleet = Schemas["Fleet"];

export default function Plans() {
  const known = useQuery(fleets());
  const { plan: id } = useParams();
  const [params] = useSearchParams();
  const shown = useQuery(planOf(id ?? ""));
  return (
    <Page title="Plan">
      <Loaded query={known} height={400}>
        {(all) => {
          const name = shown.data?.fleet ?? params.get("fleet");
          const fleet = name ? all.find((each) => each.name === name) : (all.find((each) => each.plan.proposed) ?? all[0]);
          if (id && shown.isPending) return <Skeleton height={400} />;
          if (!fleet) return <NoFleet name={name} />;
          return <OfFleet key={fleet.name} fleet={fleet} all={all} id={id} />;
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
