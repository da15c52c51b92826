"""Set, read and remove budgets."""

from datetime import datetime

from control.actions.context import ActionContext
from control.actions.refusal import WrongFieldError
from control.cost.budgets import BudgetReport, budget_book
from control.db.budgets import PostgresBudgets, Scope
from control.db.database import Database
from control.db.errors import NotStoredError
from control.db.fleets import PostgresFleets
from control.db.ledger import PostgresLedger
from control.db.projects import PostgresProjects
from policies.budget import Budget


def set_budget(
    act: ActionContext,
    scope: Scope,
    name: str,
    usd_per_hour: float | None,
    usd_per_month: float | None,
    floor_usd_per_hour: float,
    version: int | None = None,
) -> BudgetReport:
    """Set a budget, in place of the one before.

    Raises WrongFieldError for limits that limit nothing; NotStoredError, with the nearest name, for a fleet or project
    that is not there; with `version` (0: there is none) StaleVersionError.
    """
    try:
        budget = Budget(usd_per_hour, usd_per_month, floor_usd_per_hour)
    except ValueError as error:
        raise WrongFieldError("", str(error)) from None
    with act.as_one() as one:
        (PostgresFleets if scope is Scope.FLEET else PostgresProjects)(one.database).load(name)
        PostgresBudgets(one.database).put(scope, name, budget, act.now, version)
        one.record("budget.changed", f"set the budget of {scope} {name}", name, _fleet(scope, name), budget.given)
        return budget_report(one.database, act.now, scope, name)


def remove_budget(act: ActionContext, scope: Scope, name: str, version: int | None = None) -> None:
    """Remove a budget: only the spec's own policy limits what is spent then. Raises NotStoredError; with `version`
    StaleVersionError."""
    with act.as_one() as one:
        PostgresBudgets(one.database).remove(scope, name, version)
        one.record("budget.removed", f"removed the budget of {scope} {name}", name, _fleet(scope, name))


def budget_reports(database: Database, now: datetime) -> tuple[BudgetReport, ...]:
    """All budgets with what is spent of each, by scope and name."""
    return budget_book(PostgresBudgets(database), PostgresLedger(database), now).reports()


def budget_report(database: Database, now: datetime, scope: Scope, name: str) -> BudgetReport:
    """One budget with what is spent of it. Raises NotStoredError."""
    for report in budget_reports(database, now):
        if (report.scope, report.name) == (scope, name):
            return report
    raise NotStoredError(f"{scope} {name!r} has no budget")


def _fleet(scope: Scope, name: str) -> str:
    return name if scope is Scope.FLEET else ""
