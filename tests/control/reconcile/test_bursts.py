"""Load of an app beyond its plan is planned for at once, held for a while, and no longer."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from agents.messages.to_demand_desk import Offered, OfferedLine, OfferedWork
from control.db.database import Database
from control.db.demand import SETTLED, PostgresDemand
from control.db.demand_overrides import Override, PostgresDemandOverrides
from control.planning.graph_sources import app_works
from control.planning.world import World
from control.reconcile.burst_watch import BURST, BurstWatch
from templates_lib.values.plan import Plan
from templates_lib.values.work import DEFAULT_TYPE
from tests.control.cloud.fake_cloud import FakeCloud
from tests.control.planning.test_graph_apps import NOON, session_of
from tests.control.planning.test_run_apps import METERED
from tests.control.planning.worlds import world_of
from tests.control.reconcile.reconciled import Place, Plane

SPEC = METERED.replace("stock: 3", "stock: 40").replace("name: spoken", "name: chat")
SPEC += "policy: {pools: {burst: {hold_minutes: 3}}}\n"
MINUTE, START = timedelta(minutes=1), datetime.fromisoformat(NOON)


def planned(database: Database, folder: Path, text: str = SPEC) -> tuple[World, Plan]:
    session, world = session_of(database), world_of(folder, text)
    recording, templates = session.record(world, NOON)
    return world, session.plan(recording, templates, baselines=False).plan


def tell(database: Database, world: World, start: datetime, requests_per_s: float) -> None:
    """Have a gateway report what came in a minute."""
    requests, app = round(60 * requests_per_s), app_works(world.sources)["notes"]
    units = {each.id: each.unit for each in app.classes}
    legs = [leg for route in app.routes() for leg in route.legs]
    counts = [(leg.work_class, units[leg.work_class], round(leg.units_per_request * requests)) for leg in legs]
    work = tuple(OfferedWork(*each, 0, 0) for each in counts)
    line = OfferedLine("chat", "notes-audio-to-text", DEFAULT_TYPE, "", requests, 0, 0, 0, 0, 0, 0, work)
    report = Offered("life", int(start.timestamp()), 60, 1, (line,))
    PostgresDemand(database).record([("gateway", report)], start + MINUTE)


def seen(minute: int) -> datetime:
    """When a minute is known to the loop."""
    return START + (minute + 1) * MINUTE + SETTLED


def test_a_burst_is_planned_for_until_less_has_come_for_a_while(database: Database, tmp_path: Path) -> None:
    world, plan = planned(database, tmp_path)
    watch, overrides = BurstWatch(database), PostgresDemandOverrides(database)
    rates, held = [0.05] * 3 + [5.0] * 2 + [0.05] * 7, []
    for minute, rate in enumerate(rates):
        tell(database, world, START + minute * MINUTE, rate)
        why = watch.look(world.fleet, plan, seen(minute))
        assert bool(why) is (minute == 3), "the fleet is planned again only where more comes than it was planned for"
        assert watch.look(world.fleet, plan, seen(minute)) == (), "a minute is looked at once"
        (own, *_) = (*overrides.working("chat", seen(minute)).values(), None)
        held.append(0.0 if own is None else own.requests_per_s)
        assert own is None or (own.made_by, own.model) == (BURST, "notes")
    assert held[:3] == [0.0] * 3
    assert held[3] == held[4] == pytest.approx(1.2 * 5.0)
    assert held[-1] == 0, "it has lapsed"
    assert held[5] > 0


def test_what_an_operator_says_and_a_ceiling_stand(database: Database, tmp_path: Path) -> None:
    text = SPEC.replace("floor_requests_per_s: 0.05", "floor_requests_per_s: 0.05, ceiling_requests_per_s: 1")
    world, plan = planned(database, tmp_path, text)
    watch, overrides = BurstWatch(database), PostgresDemandOverrides(database)
    tell(database, world, START, 5.0)
    assert watch.look(world.fleet, plan, seen(0))
    assert overrides.working("chat", seen(0))["notes"].requests_per_s == 1
    overrides.set("chat", Override("notes", 0.5, "ada", "a test", seen(0), seen(0) + 60 * MINUTE))
    tell(database, world, START + MINUTE, 5.0)
    assert not watch.look(world.fleet, plan, seen(1))
    assert overrides.working("chat", seen(1))["notes"].made_by == "ada"


def test_no_less_is_planned_for_than_without_a_burst(database: Database, tmp_path: Path) -> None:
    """Where the plan is of before its spec asked for more."""
    world, plan = planned(database, tmp_path)
    more = world_of(tmp_path, SPEC.replace("floor_requests_per_s: 0.05", "floor_requests_per_s: 10"))
    tell(database, world, START, 5.0)
    assert BurstWatch(database).look(more.fleet, plan, seen(0))
    assert PostgresDemandOverrides(database).working("chat", seen(0))["notes"].requests_per_s == 10


def test_without_the_key_load_waits_for_the_next_plan(database: Database, tmp_path: Path) -> None:
    world, plan = planned(database, tmp_path, SPEC[: SPEC.index("policy: {pools")])
    tell(database, world, START, 5.0)
    assert BurstWatch(database).look(world.fleet, plan, seen(0)) == ()


@pytest.mark.slow
def test_the_loop_rents_for_a_burst_between_two_plans_and_says_why(database: Database, tmp_path: Path) -> None:
    place = Place(database, tmp_path, FakeCloud("local", {"listener": 40}))
    place.put(SPEC + "reconcile: {replan_minutes: 60}\n")
    plane, world = Plane(place), world_of(tmp_path, SPEC)
    plane.until_settled()
    before = len(place.types())
    start = place.now.replace(second=0, microsecond=0)
    tell(database, world, start, 5.0)
    place.pass_time((start + MINUTE + SETTLED - place.now).total_seconds())
    plane.run(15)
    plane.until_settled()
    assert len(place.types()) > before
    (why,) = place.events("pool.burst")
    assert "notes/" in why
