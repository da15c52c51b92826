"""Budgets in use: which of them a fleet is under, and how much of each is spent."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction

from control.db.budgets import PostgresBudgets, Scope, StoredBudget
from control.db.ledger import PostgresLedger
from control.ledger.charge import Charge
from control.ledger.period import month_so_far, rest_of_month
from policies.budget import Allowance, BudgetState, allowance


@dataclass(frozen=True, slots=True)
class BudgetReport:
    """A budget and what is spent of it."""

    scope: Scope
    name: str
    usd_per_hour_limit: float | None
    usd_per_month_limit: float | None
    floor_usd_per_hour: float
    usd_per_hour: float
    """Dollars an hour now."""
    month_usd: float
    month_forecast_usd: float
    version: int


@dataclass(frozen=True, slots=True, eq=False)
class BudgetBook:
    """All budgets beside all charges of this month, read once."""

    stored: tuple[StoredBudget, ...]
    charges: tuple[Charge, ...]
    """Charges of the month so far."""
    hours_left: float
    """Hours left of this month."""

    def allowance(self, fleet: str, project: str) -> Allowance:
        """Return what the budgets of a fleet and of its project leave to it."""
        return allowance(self._states(fleet, project))

    def reports(self) -> tuple[BudgetReport, ...]:
        """List the reports by scope and name."""
        return tuple(self._report(stored) for stored in self.stored)

    def _states(self, fleet: str, project: str) -> Iterable[BudgetState]:
        for stored in self.stored:
            if (stored.scope, stored.name) in ((Scope.FLEET, fleet), (Scope.PROJECT, project)):
                charges = self._of(stored)
                others = _burn(c for c in charges if c.fleet != fleet)
                name = f"{stored.scope} {stored.name}"
                yield BudgetState(name, stored.budget, _usd(charges), self.hours_left, others)

    def _report(self, stored: StoredBudget) -> BudgetReport:
        charges, budget = self._of(stored), stored.budget
        burn, spent = _burn(charges), _usd(charges)
        return BudgetReport(
            scope=stored.scope,
            name=stored.name,
            usd_per_hour_limit=budget.usd_per_hour,
            usd_per_month_limit=budget.usd_per_month,
            floor_usd_per_hour=budget.floor_usd_per_hour,
            usd_per_hour=burn,
            month_usd=spent,
            month_forecast_usd=spent + burn * self.hours_left,
            version=stored.version,
        )

    def _of(self, stored: StoredBudget) -> list[Charge]:
        if stored.scope is Scope.FLEET:
            return [c for c in self.charges if not c.leaked and c.fleet == stored.name]
        return [c for c in self.charges if not c.leaked and c.project == stored.name]


def budget_book(budgets: PostgresBudgets, ledger: PostgresLedger, now: datetime) -> BudgetBook:
    """Raises DatabaseUnavailableError."""
    return BudgetBook(budgets.all(), ledger.charges(month_so_far(now)), rest_of_month(now).hours)


def _burn(charges: Iterable[Charge]) -> float:
    return float(sum((c.usd_per_hour for c in charges), Fraction(0)))


def _usd(charges: Iterable[Charge]) -> float:
    return float(sum((c.usd for c in charges), Fraction(0)))
