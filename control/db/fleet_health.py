"""How fleets fare, from rows: when each was planned last, on what, and what failed since."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select

from control.db.database import Database
from control.db.fleet_tables import instance, instance_event
from control.db.plans import PostgresPlans
from control.db.reconcile_tables import fleet, fleet_target
from control.db.tables import plan
from control.lifecycle.state import InstanceState
from policies.alert_rules import FAILURES_WITHIN, FleetFacts


@dataclass(frozen=True, slots=True)
class FleetHealth:
    database: Database

    def facts(self, now: datetime) -> tuple[FleetFacts, ...]:
        """Of all fleets that are not ending, by name. Raises DatabaseUnavailableError."""
        planned = select(plan.c.name, func.max(plan.c.created_at).label("at")).group_by(plan.c.name).subquery()
        fleets = (
            select(fleet.c.name, fleet_target.c.accepted, func.coalesce(planned.c.at, fleet.c.updated_at).label("at"))
            .join(fleet_target, fleet_target.c.fleet == fleet.c.name)
            .outerjoin(planned, planned.c.name == fleet.c.name)
            .where(~fleet.c.ending)
            .order_by(fleet.c.name)
        )
        failed = (
            select(instance.c.fleet, instance_event.c.reason)
            .join(instance, instance.c.id == instance_event.c.instance_id)
            .where(instance_event.c.to_state == InstanceState.FAILED, instance_event.c.at > now - FAILURES_WITHIN)
            .order_by(instance_event.c.sequence)
        )
        failures: dict[str, list[str]] = {}
        with self.database.transaction() as connection:
            rows = connection.execute(fleets).all()
            for row in connection.execute(failed):
                failures.setdefault(row.fleet, []).append(row.reason)
        return tuple(self._facts(row.name, row.accepted, row.at, failures.get(row.name, [])) for row in rows)

    def _facts(self, name: str, accepted: str, planned_at: datetime, failures: list[str]) -> FleetFacts:
        plans = PostgresPlans(self.database)
        try:
            held = plans.load(accepted)
            snapshot = plans.snapshot(held.snapshot_version)
        except LookupError:  # none was accepted, or it was thrown away
            return FleetFacts(name, {}, None, planned_at, failures)
        offers = sum(snapshot.more_nodes(offer) > 0 for offer in snapshot.offers) + snapshot.held_nodes().total()
        return FleetFacts(name, held.unmet, offers, planned_at, failures)
