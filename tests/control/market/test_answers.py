"""What clouds answered, remembered in the database by several processes at once."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest

from control.cloud.errors import (
    CloudError,
    GiveUpError,
    OwnFaultError,
    QuotaError,
    RetryLaterError,
    StockOutError,
    UnauthorisedError,
)
from control.db.database import Database
from control.db.market_memory import PostgresMarketMemory
from control.market.answers import avoided, note_refusal, note_success, note_taken
from policies.availability import CallOutcome
from templates_lib.values.offer import Market
from tests.control.market.markets import NOON, after, offer

HERE = offer()
NEIGHBOUR = offer("use2-az2")
LARGER = offer(machine="g6.12xlarge")
OTHER_FAMILY = replace(offer(machine="p5.48xlarge"), node_config="H100:8/n200")
ON_DEMAND = offer(market=Market.ON_DEMAND)
ALL = (HERE, NEIGHBOUR, LARGER, OTHER_FAMILY, ON_DEMAND)


@pytest.mark.parametrize(
    ("error", "keys"),
    [
        (StockOutError("none left"), {HERE.key}),
        (QuotaError("8 vCPUs"), {HERE.key, NEIGHBOUR.key, LARGER.key}),
        (UnauthorisedError("expired"), set()),
        (OwnFaultError("no module named sky"), set()),
        (GiveUpError("no such image"), {HERE.key}),
        (RetryLaterError("throttled", 1.0), set()),
    ],
)
def test_the_type_of_an_error_says_what_is_avoided(database: Database, error: CloudError, keys: set[str]) -> None:
    note_refusal(database, HERE, error, NOON)
    assert set(avoided(database, ALL, after(1))) == keys


def test_it_says_why_and_until_when(database: Database) -> None:
    note_refusal(database, HERE, StockOutError("no\nL4 left \x1b[31m" + "x" * 9999), NOON)
    (why,) = avoided(database, ALL, after(1)).values()
    assert why.startswith(f"stock-out of {HERE.key} until 2026-11-21T12:01:00+00:00: no L4 left")
    assert why.isprintable()
    assert len(why) < 700
    assert avoided(database, ALL, after(60)) == {}


def test_a_node_that_is_given_ends_what_was_thought_of_its_quota(database: Database) -> None:
    note_refusal(database, HERE, QuotaError("8 vCPUs"), NOON)
    note_success(database, HERE, after(30))
    assert avoided(database, ALL, after(31)) == {}
    assert set(PostgresMarketMemory(database).read()) == {HERE.key, "aws/us-east-2/G-VT/spot"}


def test_a_node_that_is_taken_back_keeps_the_next_one_away(database: Database) -> None:
    note_taken(database, HERE, "spot interruption", NOON)
    assert set(avoided(database, ALL, after(1))) == {HERE.key}


def test_processes_that_are_refused_together_learn_one_shortage_and_lose_no_call(database: Database) -> None:
    def refused(number: int) -> None:
        note_refusal(database, HERE, StockOutError(f"none left for {number}"), after(number / 100))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(refused, range(24)))
    known = PostgresMarketMemory(database).read()[HERE.key]
    assert known.refusals_in_row == 1
    (calls,) = PostgresMarketMemory(database).calls(NOON)
    assert (calls.offer, calls.calls, calls.granted, calls.most_in_a_minute) == (HERE.key, 24, 0, 24)


def test_calls_are_counted_by_the_minute(database: Database) -> None:
    for second in (0, 61, 62, 125):
        note_refusal(database, HERE, StockOutError("none"), after(second))
    note_success(database, NEIGHBOUR, after(1))
    here, neighbour = PostgresMarketMemory(database).calls(NOON)
    assert (here.calls, here.most_in_a_minute, here.last_at, here.last_outcome) == (
        4, 2, after(125), CallOutcome.STOCK_OUT,
    )  # fmt: skip
    assert (neighbour.offer, neighbour.calls, neighbour.granted) == (NEIGHBOUR.key, 1, 1)
    assert PostgresMarketMemory(database).calls(NOON + timedelta(hours=1)) == ()
    PostgresMarketMemory(database).forget_calls(after(100))
    assert [each.calls for each in PostgresMarketMemory(database).calls(NOON)] == [1]
