"""The home and the planner, which several commands share."""

import os
from pathlib import Path

from control.db.database import Database
from control.db.location import home_directory
from control.reconcile.fleet_planner import FleetPlanner
from control.reconcile.live_planner import live_planner
from templates_lib.ports.source import Progress


def home() -> Path:
    found = home_directory(os.environ)
    found.mkdir(parents=True, exist_ok=True, mode=0o700)
    return found


def fleet_planner(database: Database, progress: Progress) -> FleetPlanner:
    return live_planner(database, home(), progress)
