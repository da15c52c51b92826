"""Last solve of each fleet: when it was, how good its plan is, and when the next one is."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from control.db.database import Database
from control.db.fleets import PostgresFleets
from control.db.plan_summary import PlanSummary, PostgresPlanList
from control.fleet_file.document import parse
from control.fleet_file.reconcile_section import ReconcileSection
from control.lifecycle.fleet import FleetRecord


@dataclass(frozen=True, slots=True)
class LastSolve:
    fleet: str
    plan: str
    """Empty: it was not planned yet."""
    planned_at: datetime | None
    again_by: datetime | None
    """The latest time, where a control plane runs: it plans at once when something has changed."""
    usd_per_hour: float
    summary: PlanSummary | None


def last_solves(database: Database) -> list[LastSolve]:
    """List all fleets that are not ending, by name."""
    plans = PostgresPlanList(database)
    return [_last(record, plans) for record in PostgresFleets(database).all() if not record.ending]


def _last(record: FleetRecord, plans: PostgresPlanList) -> LastSolve:
    found = plans.page(1, fleet=record.name)
    if not found:
        return LastSolve(record.name, "", None, None, 0.0, None)
    (last,) = found
    settings = ReconcileSection.model_validate(parse(record.spec, "spec").value.get("reconcile") or {})
    again_by = last.created_at + timedelta(minutes=settings.replan_minutes)
    return LastSolve(record.name, last.id, last.created_at, again_by, last.usd_per_hour, last.summary)
