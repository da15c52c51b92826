"""Load of an app beyond its plan is planned for at once, held for a while, and no longer."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import text

from agents.messages.to_demand_desk import Offered, OfferedLine, OfferedWork, Recent, RecentLine, RecentWork
from control.db.database import Database
from control.db.demand import SETTLED, SILENT, PostgresDemand
from control.db.demand_overrides import Override, PostgresDemandOverrides
from control.db.plans import PostgresPlans
from control.demand.heard_load import HeardLoad
from control.planning.graph_sources import app_works
from control.planning.world import World
from control.reconcile.burst_watch import BURST, BurstWatch
from policies.metered_demand import OVERRIDDEN
from policies.pools.lateness import ATTAINED_S, Answers
from templates_lib.values.instance import Instance
from templates_lib.values.plan import Plan
from templates_lib.values.work import DEFAULT_TYPE, Unit
from tests.control.cloud.fake_cloud import FakeCloud
from tests.control.planning.test_graph_apps import NOON, session_of
from tests.control.planning.test_run_apps import METERED
from tests.control.planning.worlds import world_of
from tests.control.reconcile.reconciled import Place, Plane

SPEC = METERED.replace("stock: 3", "stock: 40").replace("name: spoken", "name: chat")
SPEC += "policy: {pools: {burst: {hold_minutes: 3}}}\n"
MINUTE, START = timedelta(minutes=1), datetime.fromisoformat(NOON)
LOOK = timedelta(seconds=10)
SERVED = "notes-audio-to-text"


def planned(database: Database, folder: Path, spec: str = SPEC) -> tuple[World, Plan]:
    session, world = session_of(database), world_of(folder, spec)
    recording, templates = session.record(world, NOON)
    return world, session.plan(recording, templates, baselines=False).plan


def units_of(world: World, requests: int) -> list[tuple[str, Unit, int]]:
    """Work class, its unit, and what so many requests of the planned size take of it."""
    app = app_works(world.sources)["notes"]
    units = {each.id: each.unit for each in app.classes}
    legs = {leg.work_class: leg.units_per_request for route in app.routes() for leg in route.legs}
    return [(name, units[name], round(each * requests)) for name, each in legs.items()]


def say(watch: BurstWatch, world: World, now: datetime, requests: int, judged: int = 0, in_time: int = 0) -> None:
    """Have a gateway say what came in the last ten seconds, and of answers of the last minute how many were in time."""
    work = tuple(RecentWork(*each) for each in units_of(world, requests))
    line = RecentLine("chat", SERVED, requests, work, judged, in_time)
    watch.heard.hear(b"gateway", Recent(10.0, (line,)), now)


def serving(plan: Plan, since: datetime) -> tuple[Instance, ...]:
    """All that a plan has, since then."""
    return tuple(
        Instance(f"{each.template_id}-{n}", each.template_id, each.zone, each.market, "ready", (), 0, since.isoformat(),
                 "chat")
        for each in plan.instances
        for n in range(each.count)
    )  # fmt: skip


def tell(database: Database, world: World, start: datetime, requests_per_s: float) -> None:
    """Have a gateway report what came in a minute."""
    requests = round(60 * requests_per_s)
    work = tuple(OfferedWork(*each, 0, 0) for each in units_of(world, requests))
    line = OfferedLine("chat", SERVED, DEFAULT_TYPE, "", requests, 0, 0, 0, 0, 0, 0, work)
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
        why = watch.look(world, plan, seen(minute))
        assert bool(why) is (minute == 3), "the fleet is planned again only where more comes than it was planned for"
        assert watch.look(world, plan, seen(minute)) == (), "a minute is looked at once"
        (own, *_) = (*overrides.working("chat", seen(minute)).values(), None)
        held.append(0.0 if own is None else own.requests_per_s)
        assert own is None or (own.made_by, own.model) == (BURST, "notes")
    assert held[:3] == [0.0] * 3
    assert held[3] == held[4] == pytest.approx(1.2 * 5.0, rel=1e-3)
    assert held[-1] == 0, "it has lapsed"
    assert held[5] > 0


def test_a_pool_can_do_what_its_plan_was_made_to_use_of_it(database: Database, tmp_path: Path) -> None:
    session, world = session_of(database), world_of(tmp_path, SPEC)
    recording, templates = session.record(world, NOON)
    report = session.plan(recording, templates, baselines=False)
    snapshot, plan, usual = report.snapshot, report.plan, 0.05
    tell(database, world, START, usual)
    assert BurstWatch(database).look(world, plan, seen(0)) == (), "its members can do that"
    caps = {name: 1e-3 for each in plan.instances for name in each.units_per_s}
    little = replace(snapshot, version="little", settings=snapshot.settings.capped(caps))
    planned_with_little = replace(plan, id="little", snapshot_version=little.version)
    PostgresPlans(database).save("chat", planned_with_little, little)
    assert BurstWatch(database).look(world, planned_with_little, seen(0)), "it may not have them do that"


def test_what_an_operator_says_and_a_ceiling_stand(database: Database, tmp_path: Path) -> None:
    ceiling = SPEC.replace("floor_requests_per_s: 0.05", "floor_requests_per_s: 0.05, ceiling_requests_per_s: 1")
    world, plan = planned(database, tmp_path, ceiling)
    watch, overrides = BurstWatch(database), PostgresDemandOverrides(database)
    tell(database, world, START, 5.0)
    assert watch.look(world, plan, seen(0))
    assert overrides.working("chat", seen(0))["notes"].requests_per_s == 1
    overrides.set("chat", Override("notes", 0.5, "ada", "a test", seen(0), seen(0) + 60 * MINUTE))
    tell(database, world, START + MINUTE, 5.0)
    assert not watch.look(world, plan, seen(1))
    assert overrides.working("chat", seen(1))["notes"].made_by == "ada"


def test_what_an_operator_sets_in_the_same_moment_stands(database: Database, tmp_path: Path) -> None:
    world, plan = planned(database, tmp_path)
    watch, overrides = BurstWatch(database), PostgresDemandOverrides(database)
    tell(database, world, START, 5.0)
    with ThreadPoolExecutor(1) as pool:
        with database.as_one() as operators:
            said = Override("notes", 0.5, "cli:ada", "a test", seen(0), seen(0) + 60 * MINUTE)
            PostgresDemandOverrides(operators).set("chat", said)
            look = pool.submit(watch.look, world, plan, seen(0))
            while not waits_for_a_lock(database):
                assert not look.done(), "it does not see yet what the operator sets"
        assert look.result() == (), "nothing is planned for the burst"
    assert overrides.working("chat", seen(0)) == {"notes": said}
    later = Override("notes", 6.0, BURST, "a burst", seen(1), seen(1) + MINUTE)
    assert not overrides.set_unless_others("chat", later)
    assert overrides.end("chat", "notes", seen(1))
    assert overrides.set_unless_others("chat", later)
    overrides.set("chat", said)
    assert overrides.working("chat", seen(1)) == {"notes": said}, "an operator's takes the place of a burst's"


def waits_for_a_lock(database: Database) -> bool:
    query = text("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = "
                 "(SELECT oid FROM pg_database WHERE datname = current_database())")  # fmt: skip
    return bool(database.read_column(query)[0])


def test_ten_seconds_show_a_burst_and_a_few_requests_none(database: Database, tmp_path: Path) -> None:
    world, plan = planned(database, tmp_path)
    watch, overrides = BurstWatch(database), PostgresDemandOverrides(database)
    now = seen(0)
    for requests in (1, 3, 0, 2):
        say(watch, world, now, requests)
        assert watch.look(world, plan, now) == (), "so many come by chance"
        now += LOOK
    say(watch, world, now, 60)
    (why,) = watch.look(world, plan, now)
    assert "notes/" in why
    first = overrides.working("chat", now)["notes"].requests_per_s
    assert 3 < first < 1.2 * 6, "as far as it is no chance"
    for requests in (40, 60, 45, 55):
        now += LOOK
        say(watch, world, now, requests)
        assert watch.look(world, plan, now) == (), "a fifth more or less is the same burst"
    assert overrides.working("chat", now)["notes"].requests_per_s >= first
    say(watch, world, now, 400)
    assert watch.look(world, plan, now + LOOK), "much more is more"
    now += 5 * MINUTE
    assert watch.look(world, plan, now) == ()
    assert overrides.working("chat", now) == {}, "gateways say nothing any more"


def test_gateways_that_are_silent_for_a_minute_end_no_burst_and_begin_none(database: Database, tmp_path: Path) -> None:
    world, plan = planned(database, tmp_path)
    watch, overrides = BurstWatch(database), PostgresDemandOverrides(database)
    own, now = serving(plan, seen(0) - MINUTE), seen(0)
    say(watch, world, now, 60, 200, 100)
    assert watch.look(world, plan, now, own)
    held = overrides.working("chat", now)["notes"].requests_per_s
    for _ in range(6):
        now += LOOK
        assert watch.look(world, plan, now, own) == ()
        assert overrides.working("chat", now)["notes"].requests_per_s == held
    say(watch, world, now + LOOK, 60, 200, 200)
    assert watch.look(world, plan, now + LOOK, own) == (), "it is the same burst"
    assert overrides.working("chat", now + LOOK)["notes"].requests_per_s == held


def test_a_report_counts_while_its_gateway_speaks_and_hides_nobody_elses_delays() -> None:
    heard, now = HeardLoad(), START
    for name, at, judged, in_time in ((b"one", now, 100, 90), (b"other", now + LOOK, 10, 10_000)):
        heard.hear(name, Recent(10.0, (RecentLine("chat", SERVED, 30, (), judged, in_time),)), at)
    assert heard.of("chat", now + LOOK)[SERVED].answers == Answers(110, 100)
    assert heard.of("chat", now + LOOK)[SERVED].requests_per_s == 6
    assert heard.of("chat", now + SILENT)[SERVED].requests == 30
    assert heard.of("others", now) == {}
    heard.forget(b"other")
    assert heard.of("chat", now + SILENT) == {}


def test_an_app_that_is_late_gets_more_and_keeps_it_while_as_much_comes(database: Database, tmp_path: Path) -> None:
    world, plan = planned(database, tmp_path)
    watch, overrides = BurstWatch(database), PostgresDemandOverrides(database)
    own, late, well = serving(plan, seen(0)), (200, 190), (200, 200)
    assert timedelta(seconds=ATTAINED_S) == MINUTE

    def look(
        minute: int, answers: tuple[int, int], rate: float = 0.05, there: tuple[Instance, ...] = own
    ) -> tuple[str, ...]:
        tell(database, world, START + minute * MINUTE, rate)
        say(watch, world, seen(minute), 0, *answers)
        return watch.look(world, plan, seen(minute), there)

    assert look(0, late) == (), "these may be of before all served"
    assert look(1, late, there=own[1:]) == (), "not all that is planned serves"
    assert look(1, well) == look(1, (20, 19)) == look(1, (0, 0)) == ()
    (why,) = look(1, late)
    assert "95.0%" in why
    rate = overrides.working("chat", seen(1))["notes"].requests_per_s
    for minute in range(2, 17):
        assert look(minute, late if minute == 2 else well) == (), "it is planned for already"
        assert overrides.working("chat", seen(minute))["notes"].requests_per_s == pytest.approx(rate)
    for minute in range(17, 21):
        assert look(minute, well, rate=0.0) == ()
    assert overrides.working("chat", seen(20)) == {}, "nothing comes any more"
    (again,) = look(21, well)
    assert "late" in again, "what was too little is remembered"


def test_an_app_that_has_much_more_than_its_load_asks_for_gets_no_more_for_delays(
    database: Database, tmp_path: Path
) -> None:
    """Something else makes it late."""
    ample = SPEC.replace("floor_requests_per_s: 0.05", "floor_requests_per_s: 5")
    world, plan = planned(database, tmp_path, ample)
    watch, own = BurstWatch(database), serving(plan, seen(0))
    assert min(each.count for each in plan.instances) > 4
    tell(database, world, START + MINUTE, 0.05)
    say(watch, world, seen(1), 0, 200, 100)
    assert watch.look(world, plan, seen(1), own) == ()


def test_as_many_answers_in_time_as_are_promised_are_enough(database: Database, tmp_path: Path) -> None:
    promised = SPEC.replace("tpot_ms: 500}", "tpot_ms: 500, percentile: 90}")
    assert promised != SPEC
    world, plan = planned(database, tmp_path)
    watch, own = BurstWatch(database), serving(plan, seen(0))
    tell(database, world, START + MINUTE, 0.05)
    say(watch, world, seen(1), 0, 200, 184)
    assert watch.look(world_of(tmp_path, promised), plan, seen(1), own) == ()
    assert watch.look(world, plan, seen(1), own), "without a promise it is the policy's threshold"


def test_no_less_is_planned_for_than_without_a_burst(database: Database, tmp_path: Path) -> None:
    """Where the plan is of before its spec asked for more."""
    world, plan = planned(database, tmp_path)
    more = world_of(tmp_path, SPEC.replace("floor_requests_per_s: 0.05", "floor_requests_per_s: 10"))
    tell(database, world, START, 5.0)
    assert BurstWatch(database).look(more, plan, seen(0))
    assert PostgresDemandOverrides(database).working("chat", seen(0))["notes"].requests_per_s == 10


def test_without_the_key_load_waits_for_the_next_plan(database: Database, tmp_path: Path) -> None:
    world, plan = planned(database, tmp_path, SPEC[: SPEC.index("policy: {pools")])
    tell(database, world, START, 5.0)
    assert BurstWatch(database).look(world, plan, seen(0)) == ()


@pytest.mark.slow
def test_the_loop_rents_for_a_burst_between_two_plans_and_says_why(database: Database, tmp_path: Path) -> None:
    place = Place(database, tmp_path, FakeCloud("local", {"listener": 40}))
    place.put(SPEC + "reconcile: {replan_minutes: 60}\n")
    plane, world = Plane(place), world_of(tmp_path, SPEC)
    plane.until_settled()
    before = len(place.types())
    start = place.now.replace(second=0, microsecond=0)
    gone = Override("gone", 3.0, "cli:ada", "a model that the spec has no longer", start, start + 60 * MINUTE)
    PostgresDemandOverrides(database).set("chat", gone)
    tell(database, world, start, 5.0)
    place.pass_time((start + MINUTE + SETTLED - place.now).total_seconds())
    plane.run(15)
    plane.until_settled()
    assert len(place.types()) > before
    (why,) = place.events("pool.burst")
    assert "notes/" in why
    plan = PostgresPlans(database).load(place.fleets.target("chat").accepted)
    (instead,) = [reason.text for reason in plan.reasons if reason.kind == OVERRIDDEN]
    assert BURST in instead, "`medley explain` says that it is of a burst"
    assert "notes/" in instead, "and of which pool"
