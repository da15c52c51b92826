"""States of the fleets on record."""

from collections.abc import Mapping, Sequence

from control.db.database import Database
from control.db.fleets import PostgresFleets
from control.db.instances import PostgresInstances
from control.db.libraries import PostgresLibraries
from control.db.plans import PostgresPlans
from control.fleet.fleet_status import FleetStatus, fleet_status
from control.fleet.instance_view import InstanceView
from control.fleet.latency import GatewayFigures
from control.fleet_file.model_section import if_readable, slos_of
from control.planning.report import units_wanted


def fleet_statuses(
    database: Database, views: Sequence[InstanceView], figures: Mapping[str, GatewayFigures]
) -> list[FleetStatus]:
    """Statuses of all fleets of `views`, against the plan that asked for the youngest of their instances.

    Those whose plans were thrown away are left out."""
    plans, instances = PostgresPlans(database), PostgresInstances(database)
    slos = {each.name: if_readable(slos_of, each.spec) for each in PostgresFleets(database).all()}
    found = []
    for fleet in sorted({view.fleet for view in views}):
        own = [view for view in views if view.fleet == fleet]
        for plan_id in instances.plans_of_fleet(fleet):
            try:
                plan = plans.load(plan_id)
                classes = PostgresLibraries(database).show(plan.library_version).classes
            except LookupError:
                continue
            wanted = units_wanted(plan, plans.snapshot(plan.snapshot_version))
            found.append(fleet_status(fleet, plan, classes, own, figures, wanted, slos.get(fleet)))
            break
    return found
