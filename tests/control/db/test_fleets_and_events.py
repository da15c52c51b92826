"""Fleets, the plans they are held to, and events: guarded writes, pages."""

from datetime import UTC, datetime

import pytest
import sqlalchemy as sa

from control.db.database import Database
from control.db.errors import NotStoredError, StaleVersionError
from control.db.events import PostgresEvents
from control.db.fleets import PostgresFleets
from control.db.reconcile_tables import event
from control.lifecycle.fleet import FleetMode
from control.lifecycle.fleet_event import RECONCILER, FleetEvent

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def test_a_fleet_starts_in_observe_without_a_plan(database: Database) -> None:
    fleets = PostgresFleets(database)
    made = fleets.create("chat", "name: chat", NOW, folder="/specs")
    assert (made.mode, made.version, made.ending, made.project) == (FleetMode.OBSERVE, 1, False, "default")
    assert fleets.load("chat") == made
    assert fleets.all() == (made,)
    target = fleets.target("chat")
    assert (target.accepted, target.proposed) == ("", "")


def test_a_second_fleet_of_the_name_is_refused(database: Database) -> None:
    fleets = PostgresFleets(database)
    fleets.create("chat", "a", NOW)
    with pytest.raises(StaleVersionError, match="already"):
        fleets.create("chat", "b", NOW)
    assert fleets.load("chat").spec == "a"


def test_of_two_writes_on_one_version_the_second_is_refused(database: Database) -> None:
    fleets = PostgresFleets(database)
    made = fleets.create("chat", "a", NOW)
    changed = fleets.change("chat", made.version, NOW, mode=FleetMode.AUTO)
    assert (changed.mode, changed.spec, changed.version) == (FleetMode.AUTO, "a", 2)
    with pytest.raises(StaleVersionError, match="version 2, not 1"):
        fleets.change("chat", made.version, NOW, spec="b")
    assert fleets.load("chat") == changed


def test_an_unknown_fleet_is_named_with_the_nearest(database: Database) -> None:
    fleets = PostgresFleets(database)
    fleets.create("chat", "a", NOW)
    for read in (fleets.load, fleets.target):
        with pytest.raises(NotStoredError, match="'chat'"):
            read("chatt")
    with pytest.raises(NotStoredError, match="'chat'"):
        fleets.change("chatt", 1, NOW, ending=True)


def test_what_is_accepted_does_not_wait_any_more(database: Database) -> None:
    fleets = PostgresFleets(database)
    fleets.create("chat", "a", NOW)
    waiting = fleets.propose(fleets.target("chat"), "p1", NOW)
    assert (waiting.proposed, waiting.accepted) == ("p1", "")
    held = fleets.accept(waiting, "p1", "token:1", "cheaper", NOW)
    assert (held.proposed, held.accepted, held.accepted_by) == ("", "p1", "token:1")
    with pytest.raises(StaleVersionError):
        fleets.accept(waiting, "p0", "token:2", "cheaper", NOW)
    assert fleets.target("chat") == held
    (event,) = PostgresEvents(database).page(9, fleet="chat")
    told = event.event
    assert (told.kind, told.actor, told.subject, told.text) == ("plan.accepted", "token:1", "p1", "cheaper")
    assert told.detail == {}  # no such plan is stored


def test_a_removed_fleet_takes_its_target_with_it(database: Database) -> None:
    fleets = PostgresFleets(database)
    fleets.create("chat", "a", NOW)
    fleets.remove("chat")
    fleets.remove("chat")
    assert fleets.all() == ()
    with pytest.raises(NotStoredError):
        fleets.target("chat")


def test_events_come_in_pages_of_one_fleet_subject_or_kind(database: Database) -> None:
    events = PostgresEvents(database)
    told = [
        FleetEvent(RECONCILER, f"kind.{n % 2}", f"why {n}", f"fleet{n % 3}", f"s{n}", {"usd": n / 2}) for n in range(12)
    ]
    events.add(told, NOW)
    newest = events.page(5)
    assert [past.event for past in newest] == told[:-6:-1]
    assert [past.event for past in events.page(5, before=newest[-1].sequence)] == told[6:1:-1]
    assert [past.event for past in events.page(9, fleet="fleet1", kind="kind.0")] == [told[10], told[4]]
    assert [past.event for past in events.page(9, subject="s3")] == [told[3]]
    assert [past.event for past in events.since(newest[-1].sequence, 3)] == told[8:11]


@pytest.mark.parametrize(
    "detail", ["[1]", "null", '{"a": {"b": 1}}', '{"a": null}', '{"a": 1e999}', '"' + "x" * 9000 + '"']
)
def test_one_odd_event_does_not_hide_the_others(database: Database, detail: str) -> None:
    events = PostgresEvents(database)
    events.add([FleetEvent("ada", "plan.made", "why", "chat", "p1", {"usd_per_hour": 1.5})], NOW)
    odd = {"at": NOW, "actor": "eve", "kind": "odd", "fleet": "chat", "subject": "p2", "text": "", "trace": ""}
    database.write(sa.insert(event).values(odd | {"detail": sa.literal(detail).cast(sa.JSON)}))
    newest, before = events.page(10)
    assert (newest.event.kind, before.event.detail) == ("odd", {"usd_per_hour": 1.5})
    assert str(newest.event.detail["unreadable"])[:400] == detail[:400]
    assert len(str(newest.event.detail["unreadable"])) < 600
    assert [each.event.kind for each in events.since(0, 10)] == ["plan.made", "odd"]
