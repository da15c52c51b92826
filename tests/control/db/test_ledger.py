"""The ledger: every dollar once, whatever became of the node, however time is split."""

import itertools
import random
from dataclasses import replace
from datetime import datetime, timedelta
from fractions import Fraction

import pytest
from sqlalchemy import update

from control.access.secret import new_secret
from control.db.burn import spent_between
from control.db.database import Database
from control.db.fleet_tables import instance as instance_table
from control.db.fleets import PostgresFleets
from control.db.instances import PostgresInstances
from control.db.intents import PostgresIntents
from control.db.ledger import PostgresLedger
from control.db.node_prices import PostgresNodePrices
from control.ledger.charge import Charge
from control.ledger.cost_line import By, cost_lines
from control.ledger.period import Period
from control.lifecycle.event import EventKind
from tests.control.lifecycle.worlds import START, driven

HOUR = timedelta(hours=1)


def at(hours: float) -> datetime:
    return START + hours * HOUR


def launch(
    database: Database, usd_per_hour: float, hours: float = 0, cloud: str = "fake", offer: str = "o", disk: float = 0.0
) -> str:
    """A new instance's node, asked for at that time; its name."""
    instance, token = driven(database, EventKind.PROVISION), new_secret()
    return PostgresIntents(database).open_create(
        instance.id, 0, f"{cloud}/{offer}", cloud, usd_per_hour, token, at(99), at(hours), disk
    )


def charges(database: Database, since: float, until: float) -> tuple[Charge, ...]:
    return PostgresLedger(database).charges(Period(at(since), at(until)))


def usd(database: Database, since: float = 0, until: float = 100) -> Fraction:
    return sum((c.usd for c in charges(database, since, until)), Fraction(0))


def test_a_node_costs_from_its_intent_until_it_is_gone(database: Database) -> None:
    name, intents = launch(database, 2.5), PostgresIntents(database)
    assert usd(database, 0, 1) == Fraction(5, 2)
    intents.created(name, "p", at(0.1))
    (charge,) = charges(database, 0, 2)
    assert (charge.usd, charge.usd_per_hour, charge.nodes) == (5, Fraction(5, 2), 1)
    assert (charge.project, charge.model, charge.cloud, charge.fleet) == ("default", "smollm2-135m", "fake", "f")
    intents.terminated(name, at(2))
    (charge,) = charges(database, 0, 50)
    assert (charge.usd, charge.usd_per_hour, charge.nodes, charge.leaked) == (5, 0, 0, False)
    assert usd(database, 2, 50) == 0


def test_what_is_refused_costs_nothing_and_what_is_abandoned_costs_until_it_was_known_not_to_be(
    database: Database,
) -> None:
    intents = PostgresIntents(database)
    intents.refused(launch(database, 10), "none left", at(1))
    assert charges(database, 0, 9) == ()
    intents.abandoned(launch(database, 10), at(1))
    assert usd(database) == 10


def test_a_price_that_changes_counts_from_then_on_and_only_for_what_is_held(database: Database) -> None:
    intents, prices = PostgresIntents(database), PostgresNodePrices(database)
    spot, other, gone = (launch(database, 1.0, offer=offer) for offer in ("spot", "other", "spot"))
    intents.terminated(gone, at(1))
    assert prices.observed({"fake/spot": 3.0, "fake/none": 9.0}, at(2)) == 1
    assert prices.observed({"fake/spot": 3.0}, at(3)) == 0
    assert prices.observed({"fake/spot": 0.1}, at(4)) == 1
    assert prices.observed({"fake/spot": 7.0}, at(3.5)) == 0, "what is older than the last look says nothing"
    assert usd(database, 0, 5) == (2 * 1 + 2 * 3 + Fraction(1, 10)) + 5 + 1
    assert sum(c.usd_per_hour for c in charges(database, 0, 3)) == 4
    for name in (spot, other):
        intents.terminated(name, at(5))
    assert usd(database) == Fraction(141, 10)


def test_a_project_keeps_what_it_was_charged_when_its_fleet_moves_or_goes(database: Database) -> None:
    fleets = PostgresFleets(database)
    made = fleets.create("f", "spec", START, project="search")
    launch(database, 1)
    fleets.change("f", made.version, START, project="ads")
    launch(database, 2)
    fleets.remove("f")
    launch(database, 4)
    lines = cost_lines(charges(database, 0, 1), By.PROJECT)
    assert {line.name: line.usd for line in lines} == {"search": 1, "ads": 2, "default": 4}


def test_a_node_of_which_nobody_knows_the_price_is_told_apart_from_a_free_one(database: Database) -> None:
    from control.db.fleet_tables import node

    name = launch(database, 1)
    launch(database, 0)
    with database.transaction() as connection:
        connection.execute(update(node).where(node.c.name == name).values(usd_per_hour=None))
    assert [(c.usd, c.unpriced_node_s) for c in sorted(charges(database, 0, 2), key=lambda c: c.unpriced_node_s)] == [
        (0, 0),
        (0, 7200),
    ]


def test_what_no_row_explains_is_a_leak_from_when_it_was_not_explained(database: Database) -> None:
    intents = PostgresIntents(database)
    abandoned = launch(database, 4)
    intents.abandoned(abandoned, at(1))
    intents.leaked(abandoned, "fake", at(0), None, at(3))
    intents.leaked("never-on-record", "fake", at(2), None, at(3))
    living = launch(database, 1)
    intents.leaked(living, "fake", at(0), None, at(3))
    (leak,) = [c for c in charges(database, 0, 3) if c.leaked]
    assert (leak.usd, leak.usd_per_hour, leak.nodes, leak.unpriced_node_s) == (8, 4, 2, 3600)
    for name in (abandoned, "never-on-record", living):
        intents.terminated(name, at(4))
    assert usd(database) == 4 + 12 + 4
    assert [c.nodes for c in charges(database, 0, 9)] == [0, 0, 0]


def test_a_node_that_comes_though_it_was_given_up_is_a_leak_until_it_is_terminated(database: Database) -> None:
    from control.db.errors import NotWantedError

    name, intents = launch(database, 6), PostgresIntents(database)
    intents.terminated(name, at(1))
    with pytest.raises(NotWantedError):
        intents.created(name, "late", at(1.5))
    intents.terminated(name, at(2))
    assert {c.leaked: c.usd for c in charges(database, 0, 9)} == {False: 6, True: 6}


@pytest.mark.parametrize("seed", range(3))
def test_any_split_of_time_adds_up_to_the_whole(database: Database, seed: int) -> None:
    draw = random.Random(seed)
    intents, prices = PostgresIntents(database), PostgresNodePrices(database)
    bill = Fraction(0)
    for number in range(25):
        offer, begin, price = f"o{number}", draw.randrange(10**6), round(draw.uniform(0, 90), draw.randrange(9))
        disk = draw.choice([0.0, 0.0137])
        name = launch(database, price, begin / 10**5 / 3.6, offer=offer, disk=disk)
        # Microseconds, as PostgreSQL keeps them: the bill is reckoned from whole ones.
        since, end = at(begin / 10**5 / 3.6), at(12 + number)
        for hours in sorted(draw.uniform(3, 12) for _ in range(draw.randrange(4))):
            changed = round(draw.uniform(0, 90), 4)
            prices.observed({f"fake/{offer}": changed}, at(hours))
            bill += _money(price, since, at(hours)) + _money(disk, since, at(hours))
            price, since = changed, at(hours)
        fate = draw.choice(("living", "terminated", "abandoned", "leaked"))
        if fate == "abandoned":
            intents.abandoned(name, end)
        elif fate != "living":
            intents.terminated(name, end)
        if fate == "leaked":
            intents.leaked(name, "fake", None, None, end + HOUR)
            intents.terminated(name, end + 2 * HOUR)
        last = {"living": at(100), "leaked": end + 2 * HOUR}.get(fate, end)
        bill += _money(price, since, last) + _money(disk, since, last)
    assert usd(database) == bill
    cuts = sorted({0.0, 100.0, *(draw.uniform(0, 100) for _ in range(12))})
    for by in (By.INSTANCE, By.CLOUD):
        parts = [charges(database, a, b) for a, b in itertools.pairwise(cuts)]
        merged = [c for part in parts for c in part]
        assert sum(c.usd for c in merged) == bill
        whole = {line.name: line.usd for line in cost_lines(charges(database, 0, 100), by)}
        again = {line.name: line.usd for line in cost_lines([replace(c, nodes=0) for c in merged], by)}
        assert whole == again
    swept = spent_between(database, [at(cut) for cut in cuts])
    assert [spent.usd for spent in swept] == [usd(database, a, b) for a, b in itertools.pairwise(cuts)]
    leaks = [sum(c.usd for c in charges(database, a, b) if c.leaked) for a, b in itertools.pairwise(cuts)]
    assert [spent.leaked_usd for spent in swept] == leaks
    of_fleet = sum(spent.usd for spent in spent_between(database, [at(cut) for cut in cuts], "f", "default"))
    assert of_fleet == bill - sum(leaks)


def test_nothing_is_spent_by_a_fleet_that_is_not_or_in_no_time(database: Database) -> None:
    launch(database, 6)
    assert [spent.usd for spent in spent_between(database, [at(0), at(1), at(1), at(2)])] == [6, 0, 6]
    assert [spent.usd for spent in spent_between(database, [at(0), at(1)], "another")] == [0]
    assert [spent.usd for spent in spent_between(database, [at(0), at(1)], project="another")] == [0]


def _money(price: float, since: datetime, until: datetime) -> Fraction:
    microseconds = (until - since) // timedelta(microseconds=1)
    return Fraction(repr(price)) * microseconds / (3600 * 10**6)


def test_the_ledger_needs_no_plan_or_library(database: Database) -> None:
    launch(database, 1)
    with database.transaction() as connection:
        connection.execute(update(instance_table).values(plan_id="thrown-away"))
    assert usd(database, 0, 1) == 1
    assert PostgresInstances(database).living()
