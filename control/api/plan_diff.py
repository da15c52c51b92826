"""What a plan would change of what runs now, in dollars, capacity and requests, and a mark of exactly that."""

import hashlib

import msgspec
from pydantic import BaseModel, Field

from control.api.problem import ApiError
from control.db.database import Database
from control.db.plans import PostgresPlans
from control.db.registered_models import PostgresModels
from control.diff import FleetDiff, describe
from control.diff.groups import MoveGroup
from control.lifecycle.fleet import FleetRecord
from control.reconcile.difference import difference
from control.reconcile.fleet_world import world_of_record
from control.reconcile.ordering import unrunnable
from templates_lib.values.plan import Plan


class DiffStep(BaseModel):
    """Moves that may be made at the same time; the next step begins when these are done."""

    launch: list[str] = Field(description="Ids of instances.")
    drain: list[str]
    release: list[str]
    text: list[str] = Field(description="A line each.")
    groups: list[MoveGroup] = Field(description="The same, equal moves together.")


class PlanDiff(BaseModel):
    plan_id: str
    fleet: str
    mark: str = Field(description="Of this diff: `:apply` takes it, so that what is applied is what was looked at.")
    is_empty: bool
    usd_per_hour_before: float
    usd_per_hour_after: float
    most_usd_per_hour: float = Field(description="While old and new run side by side.")
    units_per_s_before: dict[str, float] = Field(description="By work class, of ready instances.")
    units_per_s_after: dict[str, float]
    kept: int
    launched: int
    drained: int
    released: int
    requests_at_risk: int = Field(description="On instances that go: a drain waits for them up to its deadline.")
    promised_loss: dict[str, float] = Field(description="Units per second by work class that are missing on the way.")
    steps: list[DiffStep]
    stuck: list[str] = Field(description="What no step does: the plan does not fit supply or limits.")
    unrunnable: list[str] = Field(description="Why no node could run what is planned, such as an engine it has not.")


def plan_diff(database: Database, record: FleetRecord, plan_id: str) -> PlanDiff:
    """Raises NotStoredError, ApiError 409 for a plan that cannot be compared."""
    plans = PostgresPlans(database)
    plan = plans.load(plan_id)
    snapshot = plans.snapshot(plan.snapshot_version)
    world = world_of_record(record, PostgresModels(database).own())
    try:
        found, obstacles = difference(database, record.name, world.fleet, plan, snapshot), unrunnable(world, plan)
    except ValueError as error:
        raise ApiError(409, "conflict", f"plan {plan_id} cannot be compared with what runs: {error}") from None
    transition = found.transition
    return PlanDiff(
        plan_id=plan.id,
        fleet=record.name,
        mark=_mark(record, plan, found),
        is_empty=found.is_empty,
        usd_per_hour_before=found.usd_per_hour_before,
        usd_per_hour_after=found.usd_per_hour_after,
        most_usd_per_hour=found.most_usd_per_hour,
        units_per_s_before=found.units_per_s_before,
        units_per_s_after=found.units_per_s_after,
        kept=found.kept,
        launched=found.launched,
        drained=found.drained,
        released=found.released,
        requests_at_risk=found.requests_at_risk,
        promised_loss=transition.promised_loss,
        steps=[
            DiffStep(
                launch=[launch.id for launch in step.launch],
                drain=[drain.instance_id for drain in step.drain],
                release=[release.instance_id for release in step.release],
                text=list(describe(step)),
                groups=list(groups),
            )
            for step, groups in zip(transition.steps, found.groups, strict=True)
        ],
        stuck=[wait.reason for wait in transition.stuck],
        unrunnable=list(obstacles),
    )


def _mark(record: FleetRecord, plan: Plan, found: FleetDiff) -> str:
    """Of what somebody decides on, what comes and what goes: not of how busy it is."""
    moves = [
        (
            [launch.id for launch in step.launch],
            [drain.instance_id for drain in step.drain],
            [release.instance_id for release in step.release],
        )
        for step in found.transition.steps
    ]
    return hashlib.blake2b(msgspec.json.encode((plan.id, record.version, moves)), digest_size=16).hexdigest()
