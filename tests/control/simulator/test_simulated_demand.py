"""What the planner of a simulation sees of the load: as gateways would have metered it, or as it will be."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from control.db.database import Database
from control.db.demand import PostgresDemand
from control.lifecycle.fleet import FleetMode, FleetRecord
from control.planning.world import World, read_world
from control.simulator.recorded_models import text_model
from control.simulator.request_trace import Stream
from control.simulator.simulated_demand import KnownDemand, ReportedDemand
from control.simulator.traffic import Traffic

START = datetime(2026, 11, 21, tzinfo=UTC)
FLEET = Path(__file__).parents[3] / "examples" / "simulate" / "chat-fleet.yaml"
APP = "gpt-oss-20b"
RECORD = FleetRecord("chat", "default", "", "", FleetMode.AUTO, 1, False, START.isoformat())


@pytest.fixture(scope="module")
def world() -> World:
    """Plans every 10 minutes, and start-ups of 6."""
    return read_world(FLEET)


def traffic(world: World, *requests_per_minute: int) -> Traffic:
    """Minute by minute, every request as long as the shape's mean."""
    shape = world.recipe.served[0].shape
    arrivals = np.concatenate([60 * m + np.arange(n) * 60 / n for m, n in enumerate(requests_per_minute) if n])
    tokens = (round(mean) for mean in (shape.mean_prompt_tokens, shape.mean_output_tokens))
    apps = {app.name: tuple(map(text_model, app.components)) for app in world.fleet.apps}
    lengths = (np.full(len(arrivals), of, np.int32) for of in tokens)
    return Traffic([(APP, Stream(arrivals, *lengths, 60.0 * len(requests_per_minute)))], apps)


def test_what_is_known_is_the_busiest_interval_until_the_next_plan_has_its_instances(world: World) -> None:
    known = KnownDemand(traffic(world, *[60] * 10, *[120] * 10, *[300] * 10), START, 600.0, 1800.0)
    seen = [
        known.demand(RECORD, world, START + timedelta(minutes=m))[0].requests_per_s for m in (-20, 0, 5, 10, 20, 29)
    ]
    assert seen == pytest.approx([2, 2, 2.5, 5, 5, 5], rel=0.02)


def test_gateways_report_every_minute_once_whenever_plans_are_made(database: Database, world: World) -> None:
    came = traffic(world, *range(1, 31))
    reported = ReportedDemand(database, came, START, 600.0)
    for seconds in (-300, 0, 59, 60, 61, 630, 1200, 1800):
        (demand,) = reported.demand(RECORD, world, START + timedelta(seconds=seconds))
        assert demand.requests_per_s > 0
    now = START + timedelta(minutes=30)
    history = PostgresDemand(database).histories("chat", now + timedelta(minutes=1), timedelta(minutes=30), 300)
    rates = history[f"{APP}/chat"].requests_per_s
    assert (rates * 300).tolist() == pytest.approx([sum(range(n, n + 5)) for n in range(1, 31, 5)])
    assert sum(load.requests for load in came.load(0.0, 1800.0).values()) == sum(range(1, 31))
