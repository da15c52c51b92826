"""Budgets in PostgreSQL, and what each fleet has given up for them."""

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, case, delete, select
from sqlalchemy.dialects.postgresql import insert

from control.db.alert_tables import budget as budget_table
from control.db.alert_tables import given_up
from control.db.database import Database
from control.db.errors import NotStoredError
from control.db.guarded import check_version
from policies.budget import Budget
from policies.degradation import Rung


class Scope(StrEnum):
    FLEET = "fleet"
    PROJECT = "project"


@dataclass(frozen=True, slots=True)
class StoredBudget:
    scope: Scope
    name: str
    budget: Budget
    version: int
    updated_at: str
    """ISO 8601, UTC."""


@dataclass(frozen=True, slots=True)
class GivenUp:
    """Rung that a fleet is on now; `since` is empty where it never gave up anything."""

    rung: Rung = Rung.NOTHING
    reasons: tuple[str, ...] = ()
    since: str = ""


@dataclass(frozen=True, slots=True)
class PostgresBudgets:
    """Every method also raises DatabaseUnavailableError."""

    database: Database

    def put(self, scope: Scope, name: str, budget: Budget, now: datetime, version: int | None = None) -> StoredBudget:
        """Put a budget in place of the stored one. With `version` (0: nothing), raises StaleVersionError when another
        version was there."""
        with self.database.transaction() as connection:
            found = _locked(connection, scope, name)
            there = 0 if found is None else found.version
            if version is not None:
                check_version(f"the budget of {scope} {name!r}", there, version)
            values = {
                "usd_per_hour": budget.usd_per_hour,
                "usd_per_month": budget.usd_per_month,
                "floor_usd_per_hour": budget.floor_usd_per_hour,
                "version": there + 1,
                "updated_at": now,
            }
            new = insert(budget_table).values(values | {"scope": scope, "name": name})
            keys = [budget_table.c.scope, budget_table.c.name]
            put = new.on_conflict_do_update(index_elements=keys, set_=values).returning(*budget_table.c)
            return _stored(connection.execute(put).one())

    def all(self) -> tuple[StoredBudget, ...]:
        """List all budgets by scope and name."""
        query = select(budget_table).order_by(budget_table.c.scope, budget_table.c.name)
        return tuple(_stored(row) for row in self.database.read(query))

    def remove(self, scope: Scope, name: str, version: int | None = None) -> None:
        """Raises NotStoredError; with `version` StaleVersionError when it is at another one."""
        gone = delete(budget_table).where(budget_table.c.scope == scope, budget_table.c.name == name)
        with self.database.transaction() as connection:
            if (there := _locked(connection, scope, name)) is None:
                raise NotStoredError(f"{scope} {name!r} has no budget")
            if version is not None:
                check_version(f"the budget of {scope} {name!r}", there.version, version)
            connection.execute(gone)

    def given_up(self, fleet: str) -> GivenUp:
        row = self.database.read_one(select(given_up).where(given_up.c.fleet == fleet))
        return GivenUp() if row is None else _given_up(row)

    def all_given_up(self) -> dict[str, GivenUp]:
        """Return the rungs by fleet, of those that have given up anything."""
        rows = self.database.read(select(given_up).order_by(given_up.c.fleet))
        return {row.fleet: _given_up(row) for row in rows}

    def give_up(self, fleet: str, rung: Rung, reasons: tuple[str, ...], now: datetime) -> None:
        """Record the rung of `fleet` from `now` on; `since` stays while the rung does."""
        with self.database.transaction() as connection:
            if rung is Rung.NOTHING:
                connection.execute(delete(given_up).where(given_up.c.fleet == fleet))
                return
            new = insert(given_up).values(fleet=fleet, rung=rung, reasons=list(reasons), since=now)
            said = new.excluded
            since = case((given_up.c.rung == said.rung, given_up.c.since), else_=said.since)
            values = {"rung": said.rung, "reasons": said.reasons, "since": since}
            connection.execute(new.on_conflict_do_update(index_elements=[given_up.c.fleet], set_=values))


def _locked(connection: Connection, scope: Scope, name: str) -> StoredBudget | None:
    query = select(budget_table).where(budget_table.c.scope == scope, budget_table.c.name == name)
    row = connection.execute(query.with_for_update()).one_or_none()
    return None if row is None else _stored(row)


def _stored(row: Row[Any]) -> StoredBudget:
    limits = Budget(row.usd_per_hour, row.usd_per_month, row.floor_usd_per_hour)
    return StoredBudget(Scope(row.scope), row.name, limits, row.version, _iso(row.updated_at))


def _given_up(row: Row[Any]) -> GivenUp:
    return GivenUp(Rung(row.rung), msgspec.json.decode(row.reasons, type=tuple[str, ...]), _iso(row.since))


def _iso(at: datetime) -> str:
    return at.astimezone(UTC).isoformat()
