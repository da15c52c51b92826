"""The limit that budgets set to planning: how much a fleet may spend, and what it has given up so far."""

import math
from dataclasses import dataclass, field
from datetime import datetime

from control.cost.budgets import budget_book
from control.db.budgets import PostgresBudgets
from control.db.database import Database
from control.db.ledger import PostgresLedger
from policies.budget import Allowance
from policies.degradation import Rung


@dataclass(frozen=True, slots=True)
class SpendingLimit:
    allowed: Allowance = field(default_factory=lambda: Allowance(math.inf))
    in_force: Rung = Rung.NOTHING
    """Rung that the fleet has given up already to stay within it."""


def spending_limit(database: Database, fleet: str, project: str, now: datetime) -> SpendingLimit:
    """Read what the budgets leave to a fleet of `project` at `now`. Raises DatabaseUnavailableError."""
    budgets = PostgresBudgets(database)
    in_force = budgets.given_up(fleet).rung
    if not budgets.all():
        return SpendingLimit(in_force=in_force)
    book = budget_book(budgets, PostgresLedger(database), now)
    return SpendingLimit(book.allowance(fleet, project), in_force)
