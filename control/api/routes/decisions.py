"""Decisions about a plan: compared with what runs, then approved, applied or rejected."""

from typing import Annotated

from fastapi import Body
from pydantic import BaseModel, ConfigDict, Field

from control.actions import decide_plan
from control.actions.decide_plan import DRAFT, AcceptedPlan
from control.actions.plan_change import plan_change
from control.api.documented import problems
from control.api.guarded_route import ActOf, ServicesOf, api_router
from control.api.ids import PlanId
from control.api.plan_diff import PlanDiff, plan_diff
from control.api.routes.fleets import FleetPlan
from control.api.text import Line
from control.db.fleets import PostgresFleets
from control.db.plan_summary import PostgresPlanList

router = api_router("plans")


class Decision(BaseModel):
    model_config = ConfigDict(extra="forbid")

    mark: str = Field(
        default="", max_length=64, description="Mark of the diff that was looked at; without it 409, with the diff."
    )
    reason: Line = Field(default="", description="Reason, for the history.")


class Decided(BaseModel):
    fleet: str
    plan: FleetPlan
    diff: PlanDiff | None = Field(description="The diff that is being carried out; null: none is.")


DecisionOf = Annotated[Decision, Body()]


@router.get("/plans/{plan}/diff", responses=problems(404, 409))
def get_diff(plan: PlanId, services: ServicesOf) -> PlanDiff:
    """Show what accepting this plan would change of what runs now: dollars, capacity, requests at risk, steps."""
    listed = PostgresPlanList(services.database).of(plan)
    fleet = PostgresFleets(services.database).load(listed.fleet.removesuffix(DRAFT))
    return plan_diff(plan_change(services.database, fleet, plan))


@router.post("/plans/{plan}:approve", responses=problems(404, 409, 412, body=True))
def approve_plan(plan: PlanId, act: ActOf, body: DecisionOf) -> Decided:
    """Accept the plan that waits for approval. 409, with the diff, unless the body has the diff's mark."""
    return _decided(decide_plan.approve_plan(act, plan, body.mark, body.reason))


@router.post("/plans/{plan}:apply", responses=problems(404, 409, 412, body=True))
def apply_plan(plan: PlanId, act: ActOf, body: DecisionOf) -> Decided:
    """Accept any plan of the fleet. 409, with the diff, unless the body has the diff's mark."""
    return _decided(decide_plan.apply_plan(act, plan, body.mark, body.reason))


@router.post("/plans/{plan}:reject", responses=problems(404, 409, 412, body=True))
def reject_plan(plan: PlanId, act: ActOf, body: DecisionOf) -> Decided:
    """Reject the plan that waits for approval. Another is proposed when the world has changed."""
    target = decide_plan.reject_plan(act, plan, body.reason)
    return Decided(fleet=target.fleet, plan=FleetPlan.model_validate(target), diff=None)


def _decided(done: AcceptedPlan) -> Decided:
    plan = FleetPlan.model_validate(done.target)
    return Decided(fleet=done.target.fleet, plan=plan, diff=plan_diff(done.change))
