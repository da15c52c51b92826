"""The chain of seals over events: what it shows of rows that somebody changed behind the triggers' back."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from control.cli.main import app
from control.db import audit_seals
from control.db.audit_seals import PostgresAuditSeals, Seal
from control.db.database import Database
from control.db.events import PostgresEvents
from control.lifecycle.fleet_event import FleetEvent
from tests.control.lifecycle.worlds import START

EVENT = FleetEvent("token:a", "plan.accepted", "why", "chat", "p1", {"usd_per_hour": 1.5, "is_forced": True}, "t")


def written(database: Database, count: int = 5) -> None:
    for number in range(count):
        PostgresEvents(database).add([replace(EVENT, subject=f"p{number}")], START)


@contextmanager
def owner_of_the_tables(database: Database) -> Iterator[sa.Connection]:
    """Whoever may take triggers away may change rows."""
    with database.transaction() as connection:
        connection.execute(sa.text("ALTER TABLE event DISABLE TRIGGER USER"))
        connection.execute(sa.text("ALTER TABLE event_seal DISABLE TRIGGER USER"))
        yield connection


def test_events_are_sealed_once_and_stay_as_they_were(database: Database) -> None:
    written(database)
    seals = PostgresAuditSeals(database)
    assert (seals.seal(), seals.seal()) == (5, 0)
    first = seals.verify()
    assert (first.events, first.findings) == (5, ())
    written(database, 2)
    second = seals.verify(first.newest)
    assert (second.events, second.findings) == (7, ())
    assert second.newest is not None
    assert Seal.read(str(second.newest)) == second.newest


def test_the_database_refuses_to_change_or_remove_rows(database: Database) -> None:
    written(database)
    PostgresAuditSeals(database).seal()
    for table, change in {"event": "text = 'other'", "event_seal": "digest = ''"}.items():
        for statement in ("DELETE FROM {}", "UPDATE {} SET {}", "TRUNCATE {}"):
            with pytest.raises(sa.exc.DBAPIError, match="only ever added"):
                database.write(sa.text(statement.format(table, change)))


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("UPDATE event SET text = 'other' WHERE subject = 'p2'", "not as it was sealed"),
        ("UPDATE event SET at = at + interval '1 second' WHERE subject = 'p2'", "not as it was sealed"),
        ("UPDATE event SET detail = '{\"usd_per_hour\": 1.25}' WHERE subject = 'p2'", "not as it was sealed"),
        ("DELETE FROM event WHERE subject = 'p2'", "is gone"),
        ("DELETE FROM event_seal WHERE position = 3", "are gone"),
        ("UPDATE event_seal SET digest = decode(repeat('00', 32), 'hex') WHERE position = 3", "not as it was sealed"),
    ],
)
def test_what_was_changed_is_found(database: Database, database_url: str, change: str, found: str) -> None:
    written(database)
    seals = PostgresAuditSeals(database)
    seals.seal()
    with owner_of_the_tables(database) as connection:
        connection.execute(sa.text(change))
    assert any(found in finding for finding in seals.verify().findings)
    done = CliRunner().invoke(app, ["audit", "verify", "--database-url", database_url])
    assert (done.exit_code, found in done.output) == (1, True)


@pytest.mark.parametrize(
    "odd", ['{"a": null}', "[]", '{"a": {"b": 1}}', '{"a": 1e999}', '{"a": 123456789012345678901}']
)
def test_an_event_that_cannot_be_read_is_named_and_keeps_no_other_from_its_seal(database: Database, odd: str) -> None:
    written(database, 3)
    seals = PostgresAuditSeals(database)
    seals.seal()
    written(database, 2)
    change = sa.text(
        "UPDATE event SET detail = :odd WHERE sequence IN (SELECT sequence FROM event WHERE subject = 'p1')"
    )
    with owner_of_the_tables(database) as connection:
        connection.execute(change, {"odd": odd})
    assert seals.seal() == 2
    verdict = seals.verify()
    (finding,) = verdict.findings  # of the one that was sealed before
    assert (verdict.events, "not as it was sealed" in finding) == (5, True)
    with owner_of_the_tables(database) as connection:
        connection.execute(change, {"odd": '{"other": null}'})
    assert len(seals.verify().findings) == 2


def test_a_chain_that_was_put_in_place_of_another_is_found_by_a_seal_that_was_kept(database: Database) -> None:
    written(database)
    seals = PostgresAuditSeals(database)
    kept = seals.verify().newest
    with owner_of_the_tables(database) as connection:
        connection.execute(sa.text("DELETE FROM event_seal"))
        connection.execute(sa.text("UPDATE event SET text = 'other' WHERE subject = 'p2'"))
    forged = seals.verify()
    assert forged.findings == ()
    assert seals.verify(kept).findings
    with owner_of_the_tables(database) as connection:
        connection.execute(sa.text("DELETE FROM event_seal WHERE position > 3"))
        connection.execute(sa.text("DELETE FROM event WHERE subject > 'p2'"))
    assert seals.verify(forged.newest).findings


def test_an_event_that_is_committed_late_is_sealed_behind_later_ones(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    seals = PostgresAuditSeals(database)
    with database.as_one() as one:
        written(one, 1)
        written(database, 2)
        assert seals.seal() == 2
    assert seals.seal() == 1
    monkeypatch.setattr(audit_seals, "_LATE", 0)
    with database.as_one() as one:
        written(one, 1)
        written(database, 1)
        assert seals.seal() == 1
    assert seals.seal() == 0  # further below the highest than is looked, until the chain is verified
    verdict = seals.verify()
    assert (verdict.events, verdict.findings) == (5, ())


def test_of_several_that_seal_each_event_gets_one_seal(database: Database) -> None:
    written(database, 40)
    threads = [threading.Thread(target=PostgresAuditSeals(database).seal) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    verdict = PostgresAuditSeals(database).verify()
    assert (verdict.events, verdict.findings) == (40, ())


def test_what_is_no_seal_is_refused(database_url: str) -> None:
    for wrong in ("1", "0:" + "0" * 64, "1:zz", "1:00"):
        done = CliRunner().invoke(app, ["audit", "verify", "--seal", wrong, "--database-url", database_url])
        assert done.exit_code == 1
        assert "POSITION:SHA256" in done.output
