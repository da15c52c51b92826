"""A fleet in the loop that its budget does not pay for: it gives up, drains what is too much, and takes it back."""

from pathlib import Path

import pytest

from control.db.budgets import PostgresBudgets, Scope
from control.db.database import Database
from control.db.ledger import PostgresLedger
from control.ledger.period import Period
from policies.budget import Budget
from policies.degradation import Rung
from tests.control.lifecycle.worlds import START
from tests.control.reconcile.reconciled import Place, Plane, spec

REPLANNED_S = 320
AT_ONCE_S = 5


@pytest.fixture
def place(database: Database, tmp_path: Path) -> Place:
    return Place(database, tmp_path)


def test_a_fleet_beyond_its_budget_gives_up_in_steps_and_takes_it_back(place: Place) -> None:
    budgets = PostgresBudgets(place.database)
    place.put(spec(rate=3))
    plane = Plane(place)
    plane.until_settled()
    before = len(place.types())
    assert before > 2
    budgets.put(Scope.PROJECT, "default", Budget(usd_per_hour=0.01), place.now)
    plane.run(AT_ONCE_S)
    plane.until_settled()
    assert place.types() == ["cheap"]
    assert budgets.given_up("chat").rung is Rung.SHED
    (told,) = place.events("budget.ladder")
    assert told.startswith("nothing is given up -> shedding demand: nothing is given up costs")
    assert "is the budget of project default" in told
    assert "a looser class of service costs" in told
    budgets.remove(Scope.PROJECT, "default")
    plane.run(AT_ONCE_S)
    plane.until_settled()
    assert len(place.types()) == before
    assert budgets.given_up("chat").rung is Rung.NOTHING
    assert place.events("budget.ladder")[-1] == ("shedding demand -> nothing is given up: its budgets allow it again")


def test_what_the_loop_spent_is_what_its_nodes_cost_while_they_were_held(place: Place) -> None:
    place.put(spec())
    plane = Plane(place)
    plane.until_settled()
    place.put(spec().replace("usd_per_hour: 0.01", "usd_per_hour: 0.04"))
    changed_from = place.now
    plane.run(REPLANNED_S)
    (charge,) = PostgresLedger(place.database).charges(Period(START, place.now))
    assert charge.nodes == 1
    assert float(charge.usd_per_hour) == 0.04
    held_s = (place.now - changed_from).total_seconds()
    assert 0.9 * 0.04 * held_s / 3600 < float(charge.usd) < 1.1 * 0.04 * held_s / 3600
