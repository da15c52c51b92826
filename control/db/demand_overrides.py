"""Demand of a model that operators set instead of its forecast, for a time."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, insert, select, update

from control.db.database import Database
from control.db.demand_tables import demand_override

_LOCK = 0x6F76
"""First half of the keys of locks, one for a model, that setting an override takes."""


@dataclass(frozen=True, slots=True)
class Override:
    model: str
    requests_per_s: float
    made_by: str
    """`cli:USER` or `token:ID` of an operator; anything else is the control plane itself."""
    reason: str
    made_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class PostgresDemandOverrides:
    """Every method also raises DatabaseUnavailableError."""

    database: Database

    def set(self, fleet: str, new: Override) -> None:
        """Set an override in place of one that the model may have. ValueError: no rate, or it would have expired
        already."""
        _check(new)
        with self.database.transaction() as connection:
            _lock(connection, fleet, new.model)
            _replace(connection, fleet, new)

    def set_unless_others(self, fleet: str, new: Override) -> bool:
        """The same where nobody else's is in force, however close to it that was set; tell whether there was none."""
        _check(new)
        with self.database.transaction() as connection:
            _lock(connection, fleet, new.model)
            others = _open(fleet, new.model) & (demand_override.c.expires_at > new.made_at)
            others &= demand_override.c.made_by != new.made_by
            if connection.execute(select(demand_override.c.id).where(others).limit(1)).first() is not None:
                return False
            _replace(connection, fleet, new)
        return True

    def end(self, fleet: str, model: str, now: datetime) -> bool:
        """The forecast counts again; False when it did already."""
        held = _open(fleet, model) & (demand_override.c.expires_at > now)
        with self.database.transaction() as connection:
            ended = update(demand_override).where(held).values(ended_at=now).returning(demand_override.c.id)
            return bool(connection.execute(ended).all())

    def working(self, fleet: str, now: datetime) -> dict[str, Override]:
        """Return the overrides in force by model."""
        query = select(demand_override).where(_open(fleet), demand_override.c.expires_at > now)
        rows = self.database.read(query.order_by(demand_override.c.id))
        return {
            r.model: Override(r.model, r.requests_per_s, r.made_by, r.reason, r.made_at, r.expires_at) for r in rows
        }


def _check(new: Override) -> None:
    if not 0 <= new.requests_per_s < float("inf"):
        raise ValueError(f"demand must be 0 or more requests/s, is {new.requests_per_s:g}")
    if new.expires_at <= new.made_at:
        raise ValueError("an override needs an expiry that is still to come")


def _lock(connection: Connection, fleet: str, model: str) -> None:
    """Until the end of the transaction nobody else sets one of the model: who comes second sees what the first has set,
    which is not to be seen before."""
    connection.execute(select(func.pg_advisory_xact_lock(_LOCK, func.hashtext(f"{fleet}/{model}"))))


def _replace(connection: Connection, fleet: str, new: Override) -> None:
    row = {"fleet": fleet, "model": new.model, "requests_per_s": new.requests_per_s, "made_by": new.made_by}
    row |= {"reason": new.reason, "made_at": new.made_at, "expires_at": new.expires_at}
    connection.execute(update(demand_override).where(_open(fleet, new.model)).values(ended_at=new.made_at))
    connection.execute(insert(demand_override).values(row))


def _open(fleet: str, model: str | None = None) -> ColumnElement[Any]:
    of_fleet = (demand_override.c.fleet == fleet) & demand_override.c.ended_at.is_(None)
    return of_fleet if model is None else of_fleet & (demand_override.c.model == model)
