"""How the fleets on record do."""

from collections.abc import Mapping

from control.db.database import Database
from control.db.instances import PostgresInstances
from control.db.libraries import PostgresLibraries
from control.db.plans import PostgresPlans
from control.fleet.latency import GatewayFigures
from control.fleet.status import FleetStatus, fleet_status
from control.fleet.views import instance_views


def fleet_statuses(database: Database, figures: Mapping[str, GatewayFigures]) -> list[FleetStatus]:
    """Of all fleets with an instance that is not terminated, against the plan that asked for the newest of them."""
    plans, instances = PostgresPlans(database), PostgresInstances(database)
    views = instance_views(database)
    found = []
    for fleet in sorted({view.fleet for view in views}):
        own = [view for view in views if view.fleet == fleet]
        newest = max(own, key=lambda view: (view.state_since, view.id))
        plan = plans.load(instances.plan_of(newest.id))
        classes = PostgresLibraries(database).show(plan.library_version).classes
        found.append(fleet_status(fleet, plan, classes, own, figures))
    return found
