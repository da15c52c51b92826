"""Offered load on record: counted once, added up over gateways, kept within bounds."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import func, select

from agents.messages.to_demand_desk import (
    Offered,
    OfferedLine,
    OfferedWork,
    Recent,
    RecentLine,
    RecentWork,
    ServedKey,
    Waiting,
    WaitingLine,
)
from control.db.database import Database
from control.db.demand import PostgresDemand
from control.db.demand_overrides import Override, PostgresDemandOverrides
from control.db.demand_tables import demand_hour, demand_line, demand_report, key_use
from control.db.traffic_series import served_by_key
from policies.metered_work import REQUEST
from templates_lib.values.work import Unit

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


def report(start: datetime, requests: int, *, revision: int = 1, project: str = "p", life: str = "l") -> Offered:
    line = OfferedLine(
        "f", "m", "chat", project, requests, 0, requests * 10, requests * 5, requests, requests * 10, requests
    )
    return Offered(life, int(start.timestamp()), 60, revision, (line,))


@pytest.fixture
def demand(database: Database) -> PostgresDemand:
    return PostgresDemand(database)


def rates(demand: PostgresDemand, now: datetime, span: timedelta = HOUR, step_s: int = 60) -> list[float]:
    history = demand.histories("f", now, span, step_s).get("m/chat")
    return [] if history is None else [round(rate * 60, 6) for rate in history.requests_per_s]


def served(database: Database) -> dict[tuple[str, ...], int]:
    """By project, work class and unit, of hours and reports together."""
    found: dict[tuple[str, ...], int] = {}
    with database.transaction() as connection:
        for table in (demand_hour, demand_line):
            keys = (table.c.project, table.c.work_class, table.c.unit)
            for *key, units in connection.execute(select(*keys, func.sum(table.c.served)).group_by(*keys)):
                found[tuple(key)] = found.get(tuple(key), 0) + int(units)
    return found


def test_gateways_add_up_and_a_report_that_comes_again_counts_once(demand: PostgresDemand):
    for _ in range(2):
        demand.record([("a", report(NOON, 6)), ("b", report(NOON, 4)), ("a", report(NOON + MINUTE, 1))], NOON + MINUTE)
    now = NOON + 2 * MINUTE + timedelta(seconds=20)
    assert rates(demand, now) == [10, 1]
    history = demand.histories("f", now, HOUR, 60)["m/chat"]
    assert history.end_s == (NOON + 2 * MINUTE).timestamp()
    assert history.units_per_s["m/prefill", Unit.PROMPT_TOKEN][0] * 60 == pytest.approx(100)
    assert history.units_per_s["m/decode", Unit.OUTPUT_TOKEN][0] * 60 == pytest.approx(50)
    assert demand.histories("another", now, HOUR) == {}


def test_what_a_gateway_counts_by_work_class_is_what_is_on_record(demand: PostgresDemand, database: Database):
    work = OfferedWork("m/see", Unit.IMAGE_TOKEN, 1200, 600, 600), OfferedWork("m/decode", Unit.OUTPUT_TOKEN, 9, 4, 5)
    line = OfferedLine("f", "m", "chat", "p", 2, 1, 7, 9, 1, 3, 5, work)
    demand.record([("a", Offered("l", int(NOON.timestamp()), 60, 1, (line,)))], NOON + MINUTE)
    assert served(database) == {
        ("p", "", "invocation"): 1, ("p", "m/see", "image_token"): 600, ("p", "m/decode", "output_token"): 5
    }  # fmt: skip
    history = demand.histories("f", NOON + MINUTE + timedelta(seconds=20), HOUR, 60)["m/chat"]
    assert set(history.units_per_s) == {("m/see", Unit.IMAGE_TOKEN), ("m/decode", Unit.OUTPUT_TOKEN)}
    assert history.units_per_s["m/see", Unit.IMAGE_TOKEN].tolist() == [20.0]


def test_only_a_newer_revision_replaces_a_report(demand: PostgresDemand):
    now = NOON + 2 * MINUTE
    demand.record([("a", report(NOON, 5, revision=2))], now)
    demand.record([("a", report(NOON, 1, revision=1))], now)
    demand.record([("a", report(NOON, 7, revision=3))], now)
    assert rates(demand, now) == [7]


def test_a_gateway_that_starts_over_within_an_interval_loses_nothing(demand: PostgresDemand):
    demand.record([("a", report(NOON, 5, life="first")), ("a", report(NOON, 2, life="second"))], NOON + MINUTE)
    assert rates(demand, NOON + 2 * MINUTE) == [7]


def test_what_nobody_reported_is_as_it_was_before(demand: PostgresDemand):
    demand.record([("a", report(NOON, 5)), ("a", report(NOON + 3 * MINUTE, 2))], NOON + 3 * MINUTE)
    assert rates(demand, NOON + 5 * MINUTE + timedelta(seconds=20)) == [5, 5, 5, 2, 2]


def test_reports_become_hours_once_and_say_the_same(demand: PostgresDemand, database: Database):
    for n in range(180):
        demand.record([("a", report(NOON + n * MINUTE, n // 60, project=f"p{n % 2}"))], NOON + n * MINUTE)
    later = NOON + timedelta(hours=50, seconds=20)
    before = rates(demand, later, timedelta(hours=51), 3600)
    used = served(database)
    for _ in range(2):
        demand.roll_up(later)
    with database.transaction() as connection:
        assert connection.execute(select(func.count()).select_from(demand_line)).scalar_one() == 3 * 60
        hours = select(demand_hour.c.started_at, demand_hour.c.seconds, demand_hour.c.offered).order_by("started_at")
        hours = hours.where(demand_hour.c.work_class == "")
        assert [tuple(row) for row in connection.execute(hours)] == [
            (NOON, 3600, 0), (NOON, 3600, 0), (NOON + HOUR, 3600, 30), (NOON + HOUR, 3600, 30)
        ]  # fmt: skip
    assert rates(demand, later, timedelta(hours=51), 3600)[:3] == before[:3]
    assert (
        used
        == served(database)
        == {
            (project, *work): served
            for project in ("p0", "p1")
            for work, served in (
                (REQUEST, 90),
                (("m/prefill", "prompt_token"), 900),
                (("m/decode", "output_token"), 90),
            )
        }
    )


def used(database: Database) -> dict[tuple[str, str, str], int]:
    """By project, key and unit."""
    since, until = NOON - 2 * HOUR, NOON + timedelta(days=3)
    return {
        (work.project, work.key, unit): units
        for work in served_by_key(database, since, until, "f")
        for unit, units in (("requests", work.requests), *((name, count) for name, count in work.units.items()))
    }


def test_use_by_key_is_that_of_the_newest_revisions_and_becomes_hours(demand: PostgresDemand, database: Database):
    def told(start: datetime, revision: int, *keys: ServedKey) -> Offered:
        work = (
            OfferedWork("m/prefill", Unit.PROMPT_TOKEN, 90, 0, 90),
            OfferedWork("m/decode", Unit.OUTPUT_TOKEN, 9, 0, 9),
        )
        line = OfferedLine("f", "m", "chat", "p", 9, 0, 90, 9, 9, 90, 9, work, keys)
        return Offered("l", int(start.timestamp()), 60, revision, (line,))

    one, other = ServedKey("one", 4, (40, 4)), ServedKey("other", 2, (30, 0))
    demand.record([("a", told(NOON, 1, one)), ("b", told(NOON, 1, one))], NOON)
    demand.record([("a", told(NOON, 2, one, other)), ("a", told(NOON, 1))], NOON)
    demand.record([("a", told(NOON + MINUTE, 1, one)), ("a", told(NOON + HOUR, 1, one))], NOON + HOUR)
    known = used(database)
    assert known == {
        ("p", "one", "requests"): 16, ("p", "one", "m/prefill"): 160, ("p", "one", "m/decode"): 16,
        ("p", "other", "requests"): 2, ("p", "other", "m/prefill"): 30,
        ("p", "", "requests"): 18, ("p", "", "m/prefill"): 170, ("p", "", "m/decode"): 20,
    }  # fmt: skip
    for _ in range(2):
        demand.roll_up(NOON + timedelta(hours=50, seconds=20))
    assert used(database) == known
    hours = select(key_use.c.started_at, key_use.c.gateway).distinct().order_by("started_at")
    assert [tuple(row) for row in database.read(hours)] == [(NOON, ""), (NOON + HOUR, "")]
    demand.roll_up(NOON + timedelta(days=402))
    assert used(database) == {}


def test_a_report_that_tells_of_more_keys_than_may_be_is_kept_without_them(
    demand: PostgresDemand, database: Database, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("control.db.demand.MAX_KEYS", 3)
    keys = ServedKey("k1", 1, ()), ServedKey("k2", 1, ())
    lines = tuple(OfferedLine("f", "m", "chat", project, 2, 0, 0, 0, 2, 0, 0, (), keys) for project in "pqr")
    demand.record([("a", Offered("l", int(NOON.timestamp()), 60, 1, lines))], NOON)
    assert used(database) == {
        ("p", "k1", "requests"): 1, ("p", "k2", "requests"): 1, ("q", "k1", "requests"): 1,
        ("q", "", "requests"): 1, ("r", "", "requests"): 2,
    }  # fmt: skip


def test_a_report_too_old_to_be_told_from_what_has_become_an_hour_is_not_taken(
    demand: PostgresDemand, database: Database
):
    demand.record([("a", report(NOON, 5))], NOON + timedelta(hours=27))
    with database.transaction() as connection:
        assert connection.execute(select(func.count()).select_from(demand_report)).scalar_one() == 0


def test_hours_do_not_stay_for_ever(demand: PostgresDemand, database: Database):
    demand.record([("a", report(NOON, 5))], NOON)
    demand.roll_up(NOON + timedelta(days=3))
    demand.roll_up(NOON + timedelta(days=401))
    with database.transaction() as connection:
        assert connection.execute(select(func.count()).select_from(demand_hour)).scalar_one() == 0


def test_who_waits_is_known_until_it_is_not_said_any_more(demand: PostgresDemand):
    demand.hear_waiting("a", Waiting((WaitingLine("f", "m", 2), WaitingLine("f", "n", 1))), NOON)
    demand.hear_waiting("b", Waiting((WaitingLine("f", "m", 3),)), NOON)
    assert demand.waiting("f", NOON) == {"m": 5, "n": 1}
    assert demand.waiting("another", NOON) == {}
    demand.hear_waiting("a", Waiting(()), NOON)
    assert demand.waiting("f", NOON) == {"m": 3}
    assert demand.waiting("f", NOON + timedelta(seconds=21)) == {}


def test_what_came_in_the_last_seconds_is_known_until_something_else_is_said_or_nothing(demand: PostgresDemand):
    def said(requests: int) -> Recent:
        return Recent(10.0, (RecentLine("f", "m", requests, (RecentWork("m/see", Unit.IMAGE_TOKEN, 64),), 3, 2),))

    demand.hear_recent({"a": said(1), "b": said(2)}, NOON)
    later = NOON + timedelta(seconds=5)
    demand.hear_recent({"a": said(3)}, later)
    assert demand.recent(later) == {"a": (later, said(3)), "b": (NOON, said(2))}
    assert set(demand.recent(NOON + timedelta(seconds=21))) == {"a"}
    demand.hear_recent({"a": None, "b": said(4)}, later)
    assert demand.recent(later) == {"b": (later, said(4))}
    demand.roll_up(NOON + timedelta(days=3))
    assert demand.recent(later) == {}


def test_an_override_counts_until_it_expires_is_replaced_or_taken_back(database: Database):
    overrides = PostgresDemandOverrides(database)
    first = Override("m", 3.0, "ada", "a launch", NOON, NOON + HOUR)
    second = Override("m", 0.0, "bob", "it is over", NOON + MINUTE, NOON + HOUR)
    overrides.set("f", first)
    assert overrides.working("f", NOON) == {"m": first}
    overrides.set("f", second)
    assert overrides.working("f", NOON + MINUTE) == {"m": second}
    assert overrides.working("f", NOON + HOUR) == {}
    assert overrides.end("f", "m", NOON + 2 * MINUTE)
    assert not overrides.end("f", "m", NOON + 2 * MINUTE)
    assert overrides.working("f", NOON + 3 * MINUTE) == {}
    for wrong in (Override("m", -1.0, "", "", NOON, NOON + HOUR), Override("m", 1.0, "", "", NOON, NOON)):
        with pytest.raises(ValueError, match=r"0 or more|still to come"):
            overrides.set("f", wrong)
