"""The state of clouds, fleets and instances in one answer, as `medley status` shows it."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from pydantic import BaseModel, Field

from control.api.documented import problems
from control.api.fleet_document import document_of
from control.api.guarded_route import ServicesOf, api_router
from control.db.database import Database
from control.db.fleets import PostgresFleets
from control.db.plan_summary import PlanSummary, PostgresPlanList
from control.fleet.fleet_status import FleetStatus
from control.fleet.instance_view import InstanceView
from control.fleet.live_instances import instance_views
from control.fleet.recorded_statuses import fleet_statuses
from control.fleet_file.reconcile_section import ReconcileSection
from control.lifecycle.fleet import FleetRecord
from control.market.cloud_status import CloudStatus, cloud_statuses

router = api_router("status")


@dataclass(frozen=True, slots=True)
class LastSolve:
    fleet: str
    plan: str
    """Empty: it was not planned yet."""
    planned_at: datetime | None
    again_by: datetime | None
    """The latest time, where a control plane runs: it plans at once when something has changed. None where it was not
    planned yet, or its spec cannot be read any more."""
    usd_per_hour: float
    summary: PlanSummary | None


@dataclass(frozen=True, slots=True)
class Headcount:
    states: dict[str, int]
    """Instances by state, those that are not terminated."""
    running: int
    """Requests."""
    waiting: int


class Status(BaseModel):
    clouds: list[CloudStatus] = Field(
        description="Those that were asked for offers. `left_out` says why plans rent nothing there: "
        "credentials that are missing, expired or too weak; empty: they may. `failure` is of the last time that it was "
        "asked for its offers."
    )
    instances: Headcount
    fleets: list[FleetStatus] = Field(
        description="Those that run, against their plans. Latencies are null here: see `fleets/NAME/slo`."
    )
    solves: list[LastSolve] = Field(description="Last solve of every fleet that is not ending, by name.")


@router.get("/status", responses=problems())
def get_status(services: ServicesOf) -> Status:
    """Clouds that are left out of plans, and how many instances of each fleet are ready of those planned."""
    database = services.database
    views = instance_views(database)
    return Status(
        clouds=cloud_statuses(database),
        instances=headcount(views),
        fleets=fleet_statuses(database, views, {}),
        solves=last_solves(database),
    )


def headcount(views: Iterable[InstanceView]) -> Headcount:
    views = tuple(views)
    states = Counter(view.state for view in views)
    return Headcount(dict(sorted(states.items())), sum(v.running for v in views), sum(v.waiting for v in views))


def last_solves(database: Database) -> list[LastSolve]:
    """List all fleets that are not ending, by name."""
    plans = PostgresPlanList(database)
    return [_last(record, plans) for record in PostgresFleets(database).all() if not record.ending]


def _last(record: FleetRecord, plans: PostgresPlanList) -> LastSolve:
    found = plans.page(1, fleet=record.name)
    if not found:
        return LastSolve(record.name, "", None, None, 0.0, None)
    (last,) = found
    minutes = _replan_minutes(record.spec)
    again_by = None if minutes is None else last.created_at + timedelta(minutes=minutes)
    return LastSolve(record.name, last.id, last.created_at, again_by, last.usd_per_hour, last.summary)


def _replan_minutes(spec: str) -> float | None:
    """Return None for a spec that cannot be read any more: it is planned when it was mended."""
    try:
        return ReconcileSection.model_validate(document_of(spec).get("reconcile") or {}).replan_minutes
    except ValueError:
        return None
