"""What becomes of a plan: looked at against what runs, then approved, applied or rejected."""

from typing import Annotated

from fastapi import Body
from pydantic import BaseModel, ConfigDict, Field

from control.api.caller import Caller, CallerOf
from control.api.documented import problems
from control.api.guarded_route import ServicesOf, api_router
from control.api.plan_diff import PlanDiff, plan_diff
from control.api.problem import ApiError
from control.api.routes.fleets import Held, held
from control.api.routes.plans import PlanId
from control.api.services import Services
from control.api.text import Line
from control.api.trace import current_trace
from control.api.work.requests import DRAFT
from control.db.database import Database
from control.db.errors import InUseError
from control.db.fleets import PostgresFleets
from control.db.plan_summary import ListedPlan, PostgresPlanList
from control.lifecycle.fleet import FleetMode, FleetRecord

router = api_router("plans")


class Decision(BaseModel):
    model_config = ConfigDict(extra="forbid")

    mark: str = Field(
        default="", max_length=64, description="Of the diff that was looked at; without it 409, with the diff."
    )
    reason: Line = Field(default="", description="For the history.")


class Decided(BaseModel):
    fleet: str
    plan: Held
    diff: PlanDiff | None = Field(description="That is being carried out; null: nothing is.")


DecisionOf = Annotated[Decision, Body()]


@router.get("/plans/{plan}/diff", responses=problems(404, 409))
def get_diff(plan: PlanId, services: ServicesOf) -> PlanDiff:
    """What holding the fleet to this plan would change of what runs now: dollars, capacity, requests at risk, steps."""
    listed = PostgresPlanList(services.database).of(plan)
    fleet = PostgresFleets(services.database).load(listed.fleet.removesuffix(DRAFT))
    return plan_diff(services.database, fleet, plan)


@router.post("/plans/{plan}:approve", responses=problems(404, 409, 412, body=True))
def approve_plan(plan: PlanId, caller: CallerOf, services: ServicesOf, body: DecisionOf) -> Decided:
    """Hold the fleet to the plan that waits for approval. 409, with the diff, unless the body has the diff's mark."""
    return _hold(services, caller, plan, body, only_proposed=True)


@router.post("/plans/{plan}:apply", responses=problems(404, 409, 412, body=True))
def apply_plan(plan: PlanId, caller: CallerOf, services: ServicesOf, body: DecisionOf) -> Decided:
    """Hold the fleet to any of its plans. 409, with the diff, unless the body has the diff's mark."""
    return _hold(services, caller, plan, body, only_proposed=False)


@router.post("/plans/{plan}:reject", responses=problems(404, 409, 412, body=True))
def reject_plan(plan: PlanId, caller: CallerOf, services: ServicesOf, body: DecisionOf) -> Decided:
    """Let a plan that waits for approval wait no more. Another is proposed when the world has changed."""
    now = services.clock()
    with services.database.as_one() as database:
        record, _ = _of(database, plan)
        fleets = PostgresFleets(database)
        target = fleets.target(record.name)
        if target.proposed != plan:
            raise InUseError(f"plan {plan} does not wait for approval")
        left = fleets.propose(target, "", now)
        caller.did(database, now, "plan.rejected", body.reason or "rejected it", fleet=record.name, subject=plan)
    return Decided(fleet=record.name, plan=held(left), diff=None)


def _hold(services: Services, caller: Caller, plan: str, body: Decision, *, only_proposed: bool) -> Decided:
    now = services.clock()
    with services.database.as_one() as database:
        record, listed = _of(database, plan)
        _refuse(record, listed)
        fleets = PostgresFleets(database)
        target = fleets.target(record.name)
        if only_proposed and target.proposed != plan:
            raise InUseError(f"plan {plan} does not wait for approval; {target.proposed or 'none'} does")
        diff = plan_diff(database, record, plan)
        if body.mark != diff.mark:
            what = "look at this diff first" if not body.mark else "what runs has changed since: look at the diff again"
            detail = (
                f"{what}, and send its mark: {diff.usd_per_hour_before:.2f} -> {diff.usd_per_hour_after:.2f} $/h, "
                f"{diff.launched} come, {diff.drained + diff.released} go, {diff.requests_at_risk} requests at risk"
            )
            raise ApiError(409, "look-first", detail, facts={"diff": diff.model_dump(mode="json")})
        why = body.reason or f"{diff.usd_per_hour_before:.2f} -> {diff.usd_per_hour_after:.2f} $/h"
        accepted = fleets.accept(target, plan, caller.actor, f"{caller.name}: {why}", now, current_trace.get())
    return Decided(fleet=record.name, plan=held(accepted), diff=diff)


def _of(database: Database, plan: str) -> tuple[FleetRecord, ListedPlan]:
    listed = PostgresPlanList(database).of(plan)
    if listed.fleet.endswith(DRAFT):
        raise InUseError(f"plan {plan} is of a draft or a what-if: change the fleet and plan it")
    return PostgresFleets(database).load(listed.fleet), listed


def _refuse(record: FleetRecord, listed: ListedPlan) -> None:
    if record.ending:
        raise InUseError(f"fleet {record.name!r} is being ended")
    if record.mode is FleetMode.OBSERVE:
        raise InUseError(f"fleet {record.name!r} is in mode observe, which touches nothing: set approve or auto first")
    if listed.created_at.isoformat() < record.updated_at:
        raise InUseError(f"plan {listed.id} was made before fleet {record.name!r} was changed: plan it again")
