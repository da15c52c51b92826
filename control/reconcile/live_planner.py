"""The planner of fleets on record, on the market and the models that a database knows."""

import time
from pathlib import Path

from control.cost.spending_limit import spending_limit
from control.db.database import Database
from control.db.instances import PostgresInstances
from control.db.libraries import PostgresLibraries
from control.db.plans import PostgresPlans
from control.db.registered_models import PostgresModels
from control.market.live_market import LiveMarket
from control.planning.local_profiles import with_known_profiles
from control.planning.promise import AttainmentOf
from control.planning.session import PlanningSession
from control.reconcile.fleet_planner import FleetPlanner
from control.reconcile.metered_demand import MeteredDemand
from control.reconcile.promises_kept import MeasuredCorrections
from templates_lib.ports.source import Progress


def live_planner(database: Database, home: Path, progress: Progress, attainment: AttainmentOf) -> FleetPlanner:
    """Make the planner that uses the database. `home`: where profiles of this machine's nodes are kept. `progress`
    hears of libraries that are built. `attainment`: what simulates plans whose models promise a percentile."""
    session = PlanningSession(
        PostgresLibraries(database), PostgresPlans(database), progress, time.perf_counter, attainment=attainment
    )
    demand = MeteredDemand(database)
    return FleetPlanner(
        session,
        lambda world: with_known_profiles(world, home),
        LiveMarket(database),
        demand,
        PostgresInstances(database).drained_since,
        PostgresModels(database).own,
        lambda record, now: spending_limit(database, record.name, record.project, now),
        MeasuredCorrections(database),
        demand.overridden,
    )
