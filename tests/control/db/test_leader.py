"""One reconciler leads; what a former leader still wants to do is refused."""

from datetime import UTC, datetime

import pytest
from sqlalchemy import text

from control.db.database import Database
from control.db.errors import DatabaseUnavailableError, DeposedError
from control.db.intents import PostgresIntents
from control.db.leader import PostgresLeader

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def cut_all(database: Database) -> None:
    """End every other connection, as a restart of the server or a firewall does; they are gone when it returns."""
    with database.session() as connection:
        others = "SELECT pg_terminate_backend(pid, 120000) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
        connection.execute(text(f"{others} AND datname = current_database()"))


def test_one_leads_until_it_resigns(database: Database) -> None:
    one, other = PostgresLeader(database, "one"), PostgresLeader(database, "other")
    assert one.lead(NOW)
    assert one.lead(NOW)
    assert not other.lead(NOW)
    one.resign()
    one.resign()
    assert other.lead(NOW)
    assert not one.lead(NOW)
    assert other.epoch == one.epoch + 1
    other.resign()


def test_a_leader_whose_connection_is_cut_leads_no_more_and_its_intents_are_refused(database: Database) -> None:
    one, other = PostgresLeader(database, "one"), PostgresLeader(database, "other")
    assert one.lead(NOW)
    intents = PostgresIntents(database, lambda: one.epoch)
    intents.open_terminate("node-1", "fake", NOW)
    cut_all(database)
    database.engine.dispose()
    assert other.lead(NOW)
    with pytest.raises(DeposedError, match="epoch 1"):
        intents.open_terminate("node-2", "fake", NOW)
    assert [intent.node for intent in intents.open("fake")] == ["node-1"]
    with pytest.raises(DatabaseUnavailableError):
        one.lead(NOW)
    assert not one.lead(NOW)
    other.resign()
    assert one.lead(NOW)
    intents.open_terminate("node-2", "fake", NOW)
    one.resign()


def test_nobody_has_led_before_the_first(database: Database) -> None:
    intents = PostgresIntents(database, lambda: 0)
    with pytest.raises(DeposedError):
        intents.open_terminate("node-1", "fake", NOW)


def test_who_led_does_not_lead_in_an_older_state_of_the_database(database: Database) -> None:
    """Such as an empty one in its place: all that runs would be taken for orphans."""
    one = PostgresLeader(database, "one")
    for _ in range(3):
        assert one.lead(NOW)
        one.resign()
    with database.transaction() as connection:
        connection.execute(text("UPDATE leader SET epoch = 1"))
    for _ in range(3):
        assert not one.lead(NOW)
        assert one.is_lost
    fresh = PostgresLeader(database, "fresh")
    assert fresh.lead(NOW)
    fresh.resign()
