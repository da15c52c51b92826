"""Changes that a plan would make to what runs now, for people to look at before they decide."""

import hashlib
from dataclasses import dataclass

import msgspec

from control.actions.refusal import NotNowError
from control.db.database import Database
from control.db.plans import PostgresPlans
from control.db.registered_models import PostgresModels
from control.diff.fleet_diff import FleetDiff, fleet_diff
from control.diff.supply import supply_of
from control.diff.target import targets
from control.fleet.live_instances import running
from control.lifecycle.fleet import FleetRecord
from control.planning.fleet import Fleet
from control.planning.world import World
from control.reconcile.fleet_world import world_of_record
from control.reconcile.ordering import unrunnable
from templates_lib.values.plan import Plan
from templates_lib.values.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class PlanChange:
    record: FleetRecord
    plan: Plan
    diff: FleetDiff
    unrunnable: tuple[str, ...]
    """Why no node could run what is planned; empty: nodes can."""

    @property
    def mark(self) -> str:
        """Hash of what comes and what goes, and of the spec's version; not of how busy instances are."""
        moves = [
            (
                [launch.id for launch in step.launch],
                [drain.instance_id for drain in step.drain],
                [release.instance_id for release in step.release],
            )
            for step in self.diff.transition.steps
        ]
        content = msgspec.json.encode((self.plan.id, self.record.version, moves))
        return hashlib.blake2b(content, digest_size=16).hexdigest()


def plan_change(database: Database, record: FleetRecord, plan_id: str) -> PlanChange:
    """The change of a stored plan. Raises NotStoredError, SpecError, and NotNowError for a plan that cannot be compared
    with what runs."""
    plans = PostgresPlans(database)
    plan = plans.load(plan_id)
    world = world_of_record(record, PostgresModels(database).own())
    return change_to(database, record, world, plan, plans.snapshot(plan.snapshot_version))


def change_to(database: Database, record: FleetRecord, world: World, plan: Plan, snapshot: Snapshot) -> PlanChange:
    """The change of a plan that was solved for `world` on `snapshot`. Raises NotNowError as `plan_change`."""
    try:
        diff = difference(database, record.name, world.fleet, plan, snapshot)
        return PlanChange(record, plan, diff, unrunnable(world, plan))
    except ValueError as error:
        raise NotNowError(f"plan {plan.id[:12]} cannot be compared with what runs: {error}") from None


def difference(database: Database, name: str, fleet: Fleet, plan: Plan, snapshot: Snapshot) -> FleetDiff:
    """Compare a plan with what runs of its fleet. `snapshot`: that `plan` was solved on. Raises ValueError where it
    cannot be compared."""
    most = snapshot.settings.guardrails.max_unproven_nodes
    supply = supply_of(snapshot.offers, snapshot.pools, snapshot.held_nodes(), most)
    return fleet_diff(targets(plan), running(database, name), supply, fleet.limits)
