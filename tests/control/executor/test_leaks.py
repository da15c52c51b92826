"""What no row explains is counted, in dollars, from when it was not explained until its cloud lists it no more."""

from datetime import UTC, datetime, timedelta

from sqlalchemy import delete

from control.cloud.errors import RetryLaterError
from control.db.access_tables import bootstrap_token
from control.db.database import Database
from control.db.fleet_tables import intent, node
from control.db.ledger import PostgresLedger
from control.executor.bill_tags import bill_of, bill_tags
from control.ledger.charge import Charge
from control.ledger.period import Period
from control.lifecycle.event import EventKind
from tests.control.cloud.fake_cloud import Effect, FakeCloud
from tests.control.executor.fleets import START, Fleet, fleet, offer, pass_time
from tests.control.lifecycle.worlds import driven

HOUR = timedelta(hours=1)


def leaks(database: Database, medley: Fleet) -> list[Charge]:
    now = medley.executor.clock()
    return [c for c in PostgresLedger(database).charges(Period(now - timedelta(days=9), now)) if c.leaked]


def test_a_fleet_that_runs_as_it_should_leaks_nothing(database: Database) -> None:
    cloud = FakeCloud("fake", {"small": 3})
    instance, medley = driven(database, EventKind.PROVISION), fleet(database, cloud)
    name = medley.executor.rent(instance.id, 0, offer(), START).name
    medley.recover()
    medley.executor.give_back(name, "fake")
    medley.recover()
    assert leaks(database, medley) == []


def test_a_node_that_no_row_knows_is_priced_by_its_own_tags(database: Database) -> None:
    cloud = FakeCloud("fake", {"small": 3})
    instance, medley = driven(database, EventKind.PROVISION), fleet(database, cloud)
    name = medley.executor.rent(instance.id, 0, offer(), START).name
    with database.transaction() as connection:  # a backup from before it was rented is restored
        for table in (bootstrap_token, intent, node):
            connection.execute(delete(table))
    pass_time(2 * HOUR)
    cloud.fail_next("terminate", RetryLaterError("fake: slow down", 1.0))
    medley.recover()
    (leak,) = leaks(database, medley)
    assert (leak.nodes, leak.usd_per_hour, leak.cloud) == (1, 1, "fake")
    assert 2 < leak.usd < 2.1
    assert medley.recover().ended == [name]
    (leak,) = leaks(database, medley)
    assert (leak.nodes, leak.usd_per_hour) == (0, 0)
    pass_time(HOUR)
    assert leaks(database, medley)[0].usd == leak.usd


def test_a_node_that_comes_after_it_was_given_up_leaks_from_then_on(database: Database) -> None:
    cloud = FakeCloud("fake", {"small": 3})
    instance, medley = driven(database, EventKind.PROVISION), fleet(database, cloud)
    cloud.fail_next("create", RetryLaterError("fake: lost", 1.0), Effect.LATER)
    try:
        medley.executor.rent(instance.id, 0, offer(), START)
    except RetryLaterError:
        medley.recover()
    pass_time(HOUR)
    cloud.settle()
    medley.recover()
    (leak,) = leaks(database, medley)
    assert 1 < leak.usd < 1.1


def test_tags_are_read_back_and_what_somebody_has_changed_is_ignored() -> None:
    now = datetime(2026, 11, 21, 12, tzinfo=UTC)
    asked_at, price = bill_of(bill_tags(98.32, now))
    assert (asked_at, price is not None and float(price)) == (now, 98.32)
    for bad in ("", "-1", "x", "9" * 13):
        assert bill_of({"medley-asked-at": bad, "medley-micro-usd-per-hour": bad}) == (None, None)
