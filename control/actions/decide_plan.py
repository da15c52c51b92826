"""Approve, apply and reject plans."""

from dataclasses import dataclass

from control.actions.context import ActionContext
from control.actions.plan_change import PlanChange, plan_change
from control.actions.refusal import LookFirstError, NotNowError
from control.db.database import Database
from control.db.fleets import PostgresFleets
from control.db.plan_summary import ListedPlan, PostgresPlanList
from control.lifecycle.fleet import FleetMode, FleetRecord, FleetTarget

DRAFT = "~draft"
"""Ends the fleet's name in plans of a draft or a what-if, which no fleet can accept."""


@dataclass(frozen=True, slots=True)
class AcceptedPlan:
    target: FleetTarget
    change: PlanChange


def waiting_change(database: Database, fleet: str) -> PlanChange:
    """Return the changes that the plan waiting for approval would make. Raises NotStoredError, NotNowError, and as
    `plan_change`."""
    fleets = PostgresFleets(database)
    record, target = fleets.load(fleet), fleets.target(fleet)
    _check_waits(target, target.proposed)
    _check_ready(record, PostgresPlanList(database).of(target.proposed))
    return plan_change(database, record, target.proposed)


def approve_plan(act: ActionContext, plan: str, mark: str, reason: str = "") -> AcceptedPlan:
    """Accept the plan that waits for approval, as `apply_plan`; NotNowError for one that does not wait."""
    with act.as_one() as one:
        record, _ = _of(one.database, plan)
        _check_waits(PostgresFleets(one.database).target(record.name), plan)
        return apply_plan(one, plan, mark, reason)


def apply_plan(act: ActionContext, plan: str, mark: str, reason: str = "") -> AcceptedPlan:
    """Accept any plan of a fleet; `mark` is of the change that the caller has seen.

    Raises NotStoredError; NotNowError for a draft, a fleet that is ending or observes, a plan of an older spec, one
    that no node can run; LookFirstError when something else would change by now; StaleVersionError when somebody
    decides at the same time.
    """
    with act.as_one() as one:
        record, listed = _of(one.database, plan)
        _check_ready(record, listed)
        fleets = PostgresFleets(one.database)
        target, change = fleets.target(record.name), plan_change(one.database, record, plan)
        if change.unrunnable:
            raise NotNowError(f"plan {plan[:12]} cannot be run: {'; '.join(change.unrunnable)}")
        if mark != change.mark:
            raise LookFirstError(change, is_first=not mark)
        cost = f"{change.diff.usd_per_hour_before:.2f} -> {change.diff.usd_per_hour_after:.2f} $/h"
        accepted = fleets.accept(target, plan, act.actor, act.signed(reason or cost), act.now, act.trace)
        return AcceptedPlan(accepted, change)


def accept_solved(act: ActionContext, fleet: str, plan: str) -> None:
    """Accept a plan that was solved just now for the fleet as it is stored."""
    fleets = PostgresFleets(act.database)
    if (target := fleets.target(fleet)).accepted != plan:
        fleets.accept(target, plan, act.actor, act.signed("applied its spec"), act.now, act.trace)


def reject_plan(act: ActionContext, plan: str, reason: str = "") -> FleetTarget:
    """Take back the proposal of a plan; another is proposed when the world has changed. Raises NotStoredError,
    NotNowError for a plan that does not wait for approval."""
    with act.as_one() as one:
        record, _ = _of(one.database, plan)
        fleets = PostgresFleets(one.database)
        target = fleets.target(record.name)
        _check_waits(target, plan)
        one.record("plan.rejected", reason or "rejected it", plan, record.name)
        return fleets.propose(target, "", act.now)


def _of(database: Database, plan: str) -> tuple[FleetRecord, ListedPlan]:
    listed = PostgresPlanList(database).of(plan)
    if listed.fleet.endswith(DRAFT):
        raise NotNowError(f"plan {plan} is of a draft or a what-if: change the fleet and plan it")
    return PostgresFleets(database).load(listed.fleet), listed


def _check_waits(target: FleetTarget, plan: str) -> None:
    if not target.proposed:
        accepted = f"; plan {target.accepted[:12]} is accepted already" if target.accepted else ""
        raise NotNowError(f"no plan of fleet {target.fleet!r} waits for approval{accepted}")
    if target.proposed != plan:
        raise NotNowError(f"plan {plan} does not wait for approval; plan {target.proposed} does")


def _check_ready(record: FleetRecord, listed: ListedPlan) -> None:
    if record.ending:
        raise NotNowError(f"fleet {record.name!r} is ending: apply its spec again to bring it back")
    if record.mode is FleetMode.OBSERVE:
        raise NotNowError(f"fleet {record.name!r} is in mode observe, which touches nothing: set approve or auto first")
    if listed.created_at.isoformat() < record.updated_at:
        raise NotNowError(f"plan {listed.id} was made before fleet {record.name!r} was changed: plan it again")
