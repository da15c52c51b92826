"""Changes that a plan would make to what runs now."""

from control.db.database import Database
from control.diff.fleet_diff import FleetDiff, fleet_diff
from control.diff.supply import supply_of
from control.diff.target import targets
from control.fleet.live_instances import running
from control.planning.fleet import Fleet
from templates_lib.values.plan import Plan
from templates_lib.values.snapshot import Snapshot


def difference(database: Database, name: str, fleet: Fleet, plan: Plan, snapshot: Snapshot) -> FleetDiff:
    """Compare a plan with what runs of its fleet. `snapshot`: that `plan` was solved on. Raises ValueError where it
    cannot be compared."""
    most = snapshot.settings.guardrails.max_unproven_nodes
    supply = supply_of(snapshot.offers, snapshot.pools, snapshot.held_nodes(), most)
    return fleet_diff(targets(plan), running(database, name), supply, fleet.limits)
