"""The whole world, put into an empty database."""

import random
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from bench.console_world.market import fill_market, rented, sold_out
from bench.console_world.past import fill_past, fill_projects
from bench.console_world.running import Launches, change_demand, planned, put_fleet
from bench.console_world.specs import AGENTS, ASSISTANTS, PICTURES, SIMULATED, agents, assistants, idle, pictures
from control.access.role import Role
from control.db.api_tokens import PostgresApiTokens
from control.db.database import Database
from control.db.fleets import PostgresFleets
from control.db.plans import PostgresPlans
from control.lifecycle.fleet import FleetMode


@dataclass(frozen=True, slots=True)
class ConsoleWorld:
    tokens: dict[Role, str]
    """By role, of somebody who may."""
    proposed: str
    """Id of the plan of `assistants` that waits for approval."""
    instances: int
    """That live."""


def fill_console_world(database: Database, home: Path, now: datetime, scale: float = 1.0) -> ConsoleWorld:
    """`scale` 1: a thousand instances. `home`: where measured profiles would be."""
    rng = random.Random(7)
    fill_projects(database, now)
    fill_market(database, rng, now)
    put_fleet(database, assistants(scale), "support", FleetMode.APPROVE, now - timedelta(days=9))
    put_fleet(database, agents(scale), "search", FleetMode.AUTO, now - timedelta(days=9))
    put_fleet(database, idle(), "default", FleetMode.OBSERVE, now - timedelta(days=2))
    put_fleet(database, pictures(), "default", FleetMode.OBSERVE, now - timedelta(days=2))
    planned(database, PICTURES, home, now - timedelta(minutes=11), baselines=False)
    launches, fleets, plans = Launches(rng), PostgresFleets(database), PostgresPlans(database)
    accepted = []
    count = 0
    for fleet, project in ((ASSISTANTS, "support"), (AGENTS, "search")):
        compares = scale > SIMULATED or fleet != ASSISTANTS  # what promises is certified again for each baseline
        plan = planned(database, fleet, home, now - timedelta(minutes=9), baselines=compares)
        launches.run(fleet, project, plan, plans.snapshot(plan.snapshot_version), now)
        fleets.accept(fleets.target(fleet), plan.id, "token:ada", "ada: cheap enough", now - timedelta(days=1))
        rented(database, plan.nodes(), now - timedelta(minutes=7))
        accepted.append(plan.id)
        count += sum(each.count for each in plan.instances)
    launches.write(database, now)
    change_demand(database, assistants(1.15 * scale), now - timedelta(minutes=3))
    waiting = planned(database, ASSISTANTS, home, now, baselines=scale > SIMULATED)
    fleets.propose(fleets.target(ASSISTANTS), waiting.id, now)
    held = plans.load(accepted[0])
    most = max(held.offers, key=lambda each: each.nodes).offer
    sold_out(database, next(o for o in plans.snapshot(held.snapshot_version).offers if o.key == most), now)
    fill_past(database, rng, (*accepted, waiting.id), launches.names, now, scale)
    tokens = PostgresApiTokens(database)
    made = {role: tokens.create(f"ada, as {role}", role, now)[1].reveal() for role in Role}
    return ConsoleWorld(made, waiting.id, count)
