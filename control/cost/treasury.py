"""What planning needs to know of money: how much a fleet may spend, and what it has given up so far."""

import math
from dataclasses import dataclass, field
from datetime import datetime

from control.cost.budgets import budget_book
from control.db.budgets import PostgresBudgets
from control.db.database import Database
from control.db.ledger import PostgresLedger
from control.lifecycle.fleet import FleetRecord
from policies.budget import Allowance
from policies.degradation import Rung


@dataclass(frozen=True, slots=True)
class Purse:
    allowed: Allowance = field(default_factory=lambda: Allowance(math.inf))
    in_force: Rung = Rung.NOTHING


@dataclass(frozen=True, slots=True)
class Treasury:
    database: Database

    def purse(self, record: FleetRecord, now: datetime) -> Purse:
        """Raises DatabaseUnavailableError."""
        budgets = PostgresBudgets(self.database)
        if not budgets.all():
            return Purse(in_force=budgets.given_up(record.name).rung)
        book = budget_book(budgets, PostgresLedger(self.database), now)
        return Purse(book.allowance(record.name, record.project), budgets.given_up(record.name).rung)
