"""Budgets: kept, guarded, and what each leaves to a fleet."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from typer.testing import CliRunner

from control.access.secret import new_secret
from control.cli.main import app
from control.cost.budgets import budget_book
from control.db.budgets import GivenUp, PostgresBudgets, Scope
from control.db.database import Database
from control.db.errors import NotStoredError, StaleVersionError
from control.db.fleets import PostgresFleets
from control.db.intents import PostgresIntents
from control.db.ledger import PostgresLedger
from control.lifecycle.event import EventKind
from policies.budget import Budget
from policies.degradation import Rung
from tests.control.lifecycle.worlds import driven

NOW = datetime(2026, 11, 29, tzinfo=UTC)
DAYS_LEFT = 2


def test_a_budget_is_put_changed_and_removed_under_its_version(database: Database) -> None:
    budgets = PostgresBudgets(database)
    first = budgets.put(Scope.FLEET, "chat", Budget(usd_per_hour=3), NOW, version=0)
    assert (first.version, budgets.all()) == (1, (first,))
    with pytest.raises(StaleVersionError, match="at version 1, not 0"):
        budgets.put(Scope.FLEET, "chat", Budget(usd_per_hour=4), NOW, version=0)
    second = budgets.put(Scope.FLEET, "chat", Budget(usd_per_month=4, floor_usd_per_hour=1), NOW)
    assert (second.version, budgets.all()) == (2, (second,))
    budgets.remove(Scope.FLEET, "chat")
    with pytest.raises(NotStoredError, match="fleet 'chat' has no budget"):
        budgets.remove(Scope.FLEET, "chat")


def test_what_was_given_up_is_remembered_since_it_was(database: Database) -> None:
    budgets = PostgresBudgets(database)
    assert budgets.given_up("chat") == GivenUp()
    budgets.give_up("chat", Rung.MORE_SPOT, ("dear",), NOW)
    budgets.give_up("chat", Rung.MORE_SPOT, ("dearer",), NOW + timedelta(hours=1))
    assert budgets.given_up("chat") == GivenUp(Rung.MORE_SPOT, ("dearer",), NOW.isoformat())
    budgets.give_up("chat", Rung.SHED, (), NOW + timedelta(hours=2))
    assert budgets.given_up("chat").since == (NOW + timedelta(hours=2)).isoformat()
    budgets.give_up("chat", Rung.NOTHING, (), NOW)
    assert budgets.given_up("chat") == GivenUp()


def test_a_fleet_is_left_what_its_own_budget_and_its_projects_leave(database: Database) -> None:
    PostgresFleets(database).create("f", "spec", NOW, project="search")
    budgets, ledger, intents = PostgresBudgets(database), PostgresLedger(database), PostgresIntents(database)
    for _ in range(3):
        instance = driven(database, EventKind.PROVISION)
        intents.open_create(instance.id, 0, "aws/x", "aws", 2.0, new_secret(), NOW, NOW - timedelta(hours=10))
    budgets.put(Scope.PROJECT, "search", Budget(usd_per_hour=9), NOW)
    assert budget_book(budgets, ledger, NOW).allowance("f", "search").usd_per_hour == 9
    assert budget_book(budgets, ledger, NOW).allowance("another", "search").usd_per_hour == 3
    budgets.put(Scope.FLEET, "f", Budget(usd_per_month=60 + 96), NOW)
    book = budget_book(budgets, ledger, NOW)
    assert book.allowance("f", "search").usd_per_hour == pytest.approx(1.5 * 96 / (DAYS_LEFT * 24))
    assert [(r.name, r.usd_per_hour, r.month_usd, r.month_forecast_usd) for r in book.reports()] == [
        ("f", 6, 60, 60 + 6 * 48),
        ("search", 6, 60, 60 + 6 * 48),
    ]


def test_the_commands_set_list_and_remove(database: Database, database_url: str) -> None:
    def run(*arguments: str) -> str:
        done = CliRunner().invoke(app, ["budgets", *arguments, "--database-url", database_url])
        return f"{done.exit_code} {done.output}"

    assert "No budget is set" in run("list")
    PostgresFleets(database).create("chat", "spec", NOW)
    assert "set: 5,000.00 $/month" in run("set", "--fleet", "chat", "--usd-per-month", "5000")
    PostgresBudgets(database).give_up("chat", Rung.MORE_SPOT, ("it was dear",), NOW)
    assert "fleet chat: more spot since 2026-11-29T00:00: it was dear" in run("list")
    assert json.loads(run("list", "-o", "json")[2:])[0]["usd_per_month_limit"] == 5000
    assert "1 medley: error: say whose" in run("set", "--usd-per-hour", "1")
    assert "1 medley: error: a budget is above 0" in run("set", "--fleet", "chat", "--usd-per-hour", "0")
    assert run("remove", "--fleet", "chat").startswith("0 ")
    assert "has no budget" in run("remove", "--fleet", "chat")
