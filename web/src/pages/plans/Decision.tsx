import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, got, type Schemas } from "@/api/client";
import { ApiProblem } from "@/api/problem";
import { planDiff } from "@/api/queries";
import { Badge } from "@/components/Badge";
import { baselineName, uncompared } from "@/components/baseline";
import { ActButton } from "@/components/Button";
import { Stat } from "@/components/Card";
import { ConfirmDialog } from "@/components/ConfirmDialog";
import { ProblemBox, Skeleton, Warning } from "@/components/feedback";
import { Count, dollars, Percent, Seconds, Time, Usd } from "@/components/figures";
import { Figures } from "./Figures";

type Plan = Schemas["Plan"];
type Diff = Schemas["PlanDiff"];
type Fleet = Schemas["Fleet"];

/** A plan against what runs, and what becomes of it. */
export function Decision({ plan, fleet }: { plan: Plan; fleet: Fleet }) {
  const compared = useQuery({ ...planDiff(plan.id), enabled: !plan.draft, retry: false });
  const diff = compared.data;
  return (
    <>
      <div className="row wrap">
        <h2 className="mono">{plan.id.slice(0, 12)}</h2>
        <Standing plan={plan} fleet={fleet} />
        <span className="muted break">
          made <Time at={plan.created_at} ago /> by {plan.policy} · {plan.proof}, took{" "}
          <Seconds value={plan.summary.solve_s} />
        </span>
        <span className="grow" />
        {diff && <Acts plan={plan} fleet={fleet} diff={diff} />}
      </div>
      {fleet.trouble && <Warning>This fleet {fleet.trouble}.</Warning>}
      {plan.unmet_share > 0 && (
        <Warning>
          This plan leaves <Percent value={plan.unmet_share} /> of all requests unserved. What is missing is said below.
        </Warning>
      )}
      {plan.draft ? (
        <>
          <Warning>This is a draft or a what-if: nothing can be held to it. Change the fleet, and plan that.</Warning>
          <Figures plan={plan} />
        </>
      ) : compared.error && !diff ? (
        <ProblemBox error={compared.error} retry={() => void compared.refetch()} />
      ) : diff ? (
        <Compared plan={plan} diff={diff} />
      ) : (
        <Skeleton height={180} />
      )}
    </>
  );
}

function Standing({ plan, fleet }: { plan: Plan; fleet: Fleet }) {
  if (fleet.plan.proposed === plan.id) return <Badge tone="accent">waits for approval</Badge>;
  if (fleet.plan.accepted === plan.id) {
    return (
      <Badge tone="good" dot>
        held to since <Time at={fleet.plan.accepted_at} />
      </Badge>
    );
  }
  return <Badge>{plan.draft ? "draft" : "not accepted"}</Badge>;
}

function Compared({ plan, diff }: { plan: Plan; diff: Diff }) {
  return (
    <>
      <div className="grid stats">
        <Stat
          name="Cost"
          note={
            <>
              from <Usd value={diff.usd_per_hour_before} per="h" />, at most <Usd value={diff.most_usd_per_hour} per="h" /> on the way
            </>
          }
        >
          <Usd value={diff.usd_per_hour_after} per="h" />{" "}
          <small>
            <Usd value={diff.usd_per_hour_after - diff.usd_per_hour_before} sign />
          </small>
        </Stat>
        <Stat name="Saved" note={plan.saving ? <>against {baselineName(plan.saving.baseline)}, <Usd value={plan.saving.baseline_usd_per_hour} per="h" /></> : uncompared([plan])}>
          <Usd value={plan.saving?.usd_per_hour} per="h" />{" "}
          {plan.saving && (
            <small>
              <Percent value={plan.saving.share} />
            </small>
          )}
        </Stat>
        <Stat
          name="Instances"
          note={
            <>
              <Count value={diff.launched} /> launched, <Count value={diff.drained + diff.released} /> drained
            </>
          }
        >
          <Count value={diff.kept + diff.launched} />{" "}
          <small>
            <Count value={diff.kept} /> kept
          </small>
        </Stat>
        <Stat name="Requests at risk" note="on instances that go; a drain waits for them up to its deadline">
          <Count value={diff.requests_at_risk} />
        </Stat>
      </div>
      {diff.unrunnable.map((why) => (
        <Warning key={why}>It cannot be run: {why}.</Warning>
      ))}
      {Object.keys(diff.promised_loss).length > 0 && (
        <Warning>
          There is no room to launch all before something goes. Missing on the way:{" "}
          {Object.entries(diff.promised_loss)
            .map(([name, units]) => `${units.toLocaleString()} units/s of ${name}`)
            .join(", ")}
          .
        </Warning>
      )}
    </>
  );
}

function Acts({ plan, fleet, diff }: { plan: Plan; fleet: Fleet; diff: Diff }) {
  const client = useQueryClient();
  const [asked, setAsked] = useState<"take" | "reject" | null>(null);
  const isProposed = fleet.plan.proposed === plan.id;
  const path = { plan: plan.id };
  const reread = () => client.invalidateQueries({ predicate: (query) => ["fleets", "plans", "diff", "status", "instances"].includes(String(query.queryKey[0])) });
  const take = async (reason: string) => {
    const body = { mark: diff.mark, reason };
    try {
      const how = isProposed ? api.POST("/api/v1/plans/{plan}:approve", { params: { path }, body }) : api.POST("/api/v1/plans/{plan}:apply", { params: { path }, body });
      await got(how);
    } catch (error) {
      // What runs has changed since it was looked at: the new diff is there before somebody decides again.
      if (error instanceof ApiProblem && error.kind === "look-first") await client.invalidateQueries({ queryKey: planDiff(plan.id).queryKey });
      throw error;
    }
    await reread();
  };
  const reject = async (reason: string) => {
    await got(api.POST("/api/v1/plans/{plan}:reject", { params: { path }, body: { mark: "", reason } }));
    await reread();
  };
  if (fleet.plan.accepted === plan.id) return null;
  const refusal = fleet.mode === "observe" ? "The fleet is in mode observe, which touches nothing." : fleet.ending ? "The fleet is being ended." : "";
  const goes = diff.drained + diff.released;
  return (
    <>
      {isProposed && (
        <ActButton operation="reject_plan" onClick={() => setAsked("reject")}>
          Reject
        </ActButton>
      )}
      <ActButton operation={isProposed ? "approve_plan" : "apply_plan"} tone="primary" refusal={refusal} onClick={() => setAsked("take")}>
        {isProposed ? "Approve" : "Apply"}
      </ActButton>
      <ConfirmDialog
        open={asked === "take"}
        onClose={() => setAsked(null)}
        title={`Hold ${fleet.name} to this plan?`}
        text={`${dollars(diff.usd_per_hour_before)} → ${dollars(diff.usd_per_hour_after)} an hour. ${diff.launched === 1 ? "1 instance is" : `${diff.launched} instances are`} launched, ${goes} ${goes === 1 ? "goes" : "go"}, ${diff.requests_at_risk} requests are at risk.`}
        act={isProposed ? "Approve" : "Apply"}
        reason
        onConfirm={take}
      />
      <ConfirmDialog
        open={asked === "reject"}
        onClose={() => setAsked(null)}
        title="Reject this plan?"
        text="The fleet stays as it is. Another plan is proposed when the world has changed."
        act="Reject"
        danger
        reason
        onConfirm={reject}
      />
    </>
  );
}
