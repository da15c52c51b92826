"""The state of clouds, fleets and instances in one answer, as `medley status` shows it."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from pydantic import BaseModel, Field

from control.api.documented import problems
from control.api.guarded_route import ServicesOf, api_router
from control.fleet.fleet_status import FleetStatus
from control.fleet.instance_view import InstanceView
from control.fleet.last_solve import LastSolve, last_solves
from control.fleet.live_instances import instance_views
from control.fleet.recorded_statuses import fleet_statuses
from control.market.cloud_status import CloudStatus, cloud_statuses

router = api_router("status")


@dataclass(frozen=True, slots=True)
class Headcount:
    states: dict[str, int]
    """Instances by state, those that are not terminated."""
    running: int
    """Requests."""
    waiting: int


class Status(BaseModel):
    clouds: list[CloudStatus] = Field(
        description="Those that were asked for offers or that refuse. `left_out` says why plans rent nothing there: "
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
        clouds=cloud_statuses(database, services.clock()),
        instances=headcount(views),
        fleets=fleet_statuses(database, views, {}),
        solves=last_solves(database),
    )


def headcount(views: Iterable[InstanceView]) -> Headcount:
    views = tuple(views)
    states = Counter(view.state for view in views)
    return Headcount(dict(sorted(states.items())), sum(v.running for v in views), sum(v.waiting for v in views))
