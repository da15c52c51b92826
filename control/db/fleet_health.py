"""Health of fleets, from rows: when each was planned last, on what, what failed since, what can be had of its plan."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import and_, func, select

from control.db.database import Database
from control.db.fleet_tables import instance, instance_event
from control.db.market_memory import PostgresMarketMemory
from control.db.plans import PostgresPlans
from control.db.reconcile_tables import fleet, fleet_target
from control.db.tables import library, plan, snapshot
from control.lifecycle.state import InstanceState
from policies.alert_rules import FAILURES_WITHIN, FleetFacts
from policies.availability import CallOutcome, Learned, is_excluded

_SHORT = (CallOutcome.STOCK_OUT, CallOutcome.TAKEN)


@dataclass(frozen=True, slots=True)
class FleetHealth:
    database: Database

    def facts(self, now: datetime) -> tuple[FleetFacts, ...]:
        """Return the facts of all fleets that are not ending, by name. Raises DatabaseUnavailableError."""
        latest_first = (plan.c.created_at.desc(), plan.c.id.desc())
        place = func.row_number().over(partition_by=plan.c.name, order_by=latest_first).label("place")
        newest = select(plan.c.name, plan.c.created_at, plan.c.snapshot_version, place).subquery()
        planned_at = func.coalesce(newest.c.created_at, fleet.c.updated_at).label("at")
        fleets = (
            select(
                fleet.c.name,
                fleet_target.c.accepted,
                fleet_target.c.trouble,
                planned_at,
                library.c.cost_model_fingerprint.label("costs"),
            )
            .join(fleet_target, fleet_target.c.fleet == fleet.c.name)
            .outerjoin(newest, and_(newest.c.name == fleet.c.name, newest.c.place == 1))
            .outerjoin(snapshot, snapshot.c.version == newest.c.snapshot_version)
            .outerjoin(library, library.c.version == snapshot.c.library_version)
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
        learned = PostgresMarketMemory(self.database).read()
        short = {key: each for key, each in learned.items() if each.outcome in _SHORT and is_excluded(each, now)}
        return tuple(self._facts(row, failures.get(row.name, []), short) for row in rows)

    def _facts(self, row: Any, failures: list[str], short: Mapping[str, Learned]) -> FleetFacts:
        plans = PostgresPlans(self.database)
        try:
            held = plans.load(row.accepted)
            seen = plans.snapshot(held.snapshot_version)
        except LookupError:  # none was accepted, or it was thrown away
            return FleetFacts(row.name, {}, None, row.at, failures, trouble=row.trouble)
        return FleetFacts(
            row.name,
            held.unmet,
            sum(seen.more_nodes(offer) > 0 for offer in seen.offers) + seen.held_nodes().total(),
            row.at,
            failures,
            stock_outs=tuple(sorted(each.offer for each in held.offers if each.offer in short)),
            has_old_profile=row.costs is not None and row.costs != seen.cost_model_fingerprint,
            trouble=row.trouble,
        )
