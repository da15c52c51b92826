"""What commands that plan fleets on record share."""

import os
import time
from pathlib import Path

from control.db.database import Database
from control.db.libraries import PostgresLibraries
from control.db.location import home_directory
from control.db.plans import PostgresPlans
from control.db.registered_models import PostgresModels
from control.market.live_market import LiveMarket
from control.planning.local_profiles import with_known_profiles
from control.planning.session import Session
from control.reconcile.fleet_planner import FleetPlanner
from control.reconcile.market import StatedDemand
from templates_lib.source import Progress


def home() -> Path:
    found = home_directory(os.environ)
    found.mkdir(parents=True, exist_ok=True, mode=0o700)
    return found


def fleet_planner(database: Database, progress: Progress) -> FleetPlanner:
    session = Session(PostgresLibraries(database), PostgresPlans(database), progress, time.perf_counter)
    where = home()
    return FleetPlanner(
        session,
        lambda world: with_known_profiles(world, where),
        LiveMarket(database),
        StatedDemand(),
        PostgresModels(database).own,
    )
