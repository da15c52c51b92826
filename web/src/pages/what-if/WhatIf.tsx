import { useQuery } from "@tanstack/react-query";
import { useEffect } from "react";
import { Navigate, useNavigate, useParams, useSearchParams } from "react-router";
import { useParameters } from "@/address";
import { api, got, type Schemas } from "@/api/client";
import { useOperation } from "@/api/operation";
import { fleets, plan as planOf, plans } from "@/api/queries";
import { ActButton, Button } from "@/components/Button";
import { Card } from "@/components/Card";
import { Empty, Loaded, ProblemBox, Skeleton } from "@/components/feedback";
import { Select } from "@/components/Field";
import { OperationState } from "@/components/OperationState";
import { Page } from "@/layout/Page";
import { ChangeRow } from "./ChangeRow";
import { bodyOf, type Change, changesOf, KINDS, newChange, withChanges, wrongOf } from "./changes";
import { Comparison } from "./Comparison";

type Fleet = Schemas["Fleet"];

export default function WhatIf() {
  const known = useQuery(fleets());
  const { plan: id } = useParams();
  const [params] = useSearchParams();
  const shown = useQuery(planOf(id ?? ""));
  return (
    <Page title="What-if">
      <Loaded query={known} height={400}>
        {(all) => {
          const name = params.get("fleet") ?? shown.data?.fleet;
          const fleet = (name ? all.find((each) => each.name === name) : undefined) ?? all[0];
          if (id && !name && shown.isPending) return <Skeleton height={400} />;
          if (id && !shown.data && shown.error) return <ProblemBox error={shown.error} retry={() => void shown.refetch()} />;
          if (id && shown.data && id !== shown.data.id) return <Navigate to={`/what-if/${shown.data.id}?${params}`} replace />;
          if (fleet) return <OfFleet key={fleet.name} fleet={fleet} all={all} id={id} />;
          return (
            <Card>
              <Empty title="No fleet yet">
                <p>
                  Create one with <code>medley apply -f SPEC</code>; here you can then ask what it would cost if things were otherwise.
                </p>
              </Empty>
            </Card>
          );
        }}
      </Loaded>
    </Page>
  );
}

function OfFleet({ fleet, all, id }: { fleet: Fleet; all: Fleet[]; id: string | undefined }) {
  const go = useNavigate();
  const made = useQuery(plans(fleet.name));
  const base = fleet.plan.accepted || made.data?.items[0]?.id || "";
  const [params, put] = useParameters();
  const changes = changesOf(params);
  const setChanges = (next: Change[]) => put(withChanges(params, next));
  const wrong = changes.map((change) => wrongOf(change));
  const work = useOperation(() => got(api.POST("/api/v1/plans", { body: { fleet: fleet.name, baselines: false, over_budget: true, ...bodyOf(changes, fleet.spec) } })), []);
  const solved = work.operation?.state === "succeeded" ? String(work.operation.result?.plan_id ?? "") : "";
  useEffect(() => {
    if (!solved) return;
    const next = withChanges(params, changesOf(params));
    next.set("fleet", fleet.name);
    go(`/what-if/${solved}?${next}`, { replace: true });
    // once for what was solved, whatever is changed after it
  }, [solved]);
  const refusal = work.isBusy ? "It is being solved." : !changes.length ? "Change something first." : wrong.some(Boolean) ? "Mend what is marked first." : "";
  const replace = (place: number, change: Change) => setChanges(changes.with(place, change));
  return (
    <>
      <Card
        title="What if…"
        side={<Select label="Fleet" value={fleet.name} onChange={(name) => go(`/what-if?fleet=${encodeURIComponent(name)}`)} options={all.map((each) => each.name)} />}
      >
        <form
          className="stack"
          onSubmit={(event) => {
            event.preventDefault();
            if (!refusal) work.begin(undefined);
          }}
        >
          <ul className="stack" aria-label="Changes">
            {changes.map((change, place) => (
              <ChangeRow
                key={`${place} ${change.kind}`}
                change={change}
                fleet={fleet}
                wrong={wrong[place] ?? ""}
                onChange={(next) => replace(place, next)}
                onRemove={() => setChanges(changes.toSpliced(place, 1))}
              />
            ))}
          </ul>
          <div className="row wrap">
            {KINDS.map((kind) => (
              <Button key={kind.value} small tone="ghost" onClick={() => setChanges([...changes, newChange(kind.value)])}>
                + {kind.label}
              </Button>
            ))}
            <span className="grow" />
            <ActButton operation="create_plan" type="submit" tone="primary" refusal={refusal}>
              {work.isBusy ? "Solving…" : "Run what-if"}
            </ActButton>
          </div>
        </form>
      </Card>
      <OperationState work={work} />
      {id ? (
        <Comparison base={base} id={id} />
      ) : (
        <Card>
          <Empty title="Nothing was solved yet">
            <p>Say what would be otherwise, and solve. Nothing is launched or drained; the plan is compared with the one the fleet is held to.</p>
          </Empty>
        </Card>
      )}
    </>
  );
}
