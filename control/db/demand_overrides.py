"""Demand of a model that operators set instead of its forecast, for a time."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, insert, select, update

from control.db.database import Database
from control.db.demand_tables import demand_override


@dataclass(frozen=True, slots=True)
class Override:
    model: str
    requests_per_s: float
    made_by: str
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
        if not 0 <= new.requests_per_s < float("inf"):
            raise ValueError(f"demand must be 0 or more requests/s, is {new.requests_per_s:g}")
        if new.expires_at <= new.made_at:
            raise ValueError("an override needs an expiry that is still to come")
        row = {"fleet": fleet, "model": new.model, "requests_per_s": new.requests_per_s, "made_by": new.made_by}
        row |= {"reason": new.reason, "made_at": new.made_at, "expires_at": new.expires_at}
        with self.database.transaction() as connection:
            connection.execute(update(demand_override).where(_open(fleet, new.model)).values(ended_at=new.made_at))
            connection.execute(insert(demand_override).values(row))

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


def _open(fleet: str, model: str | None = None) -> ColumnElement[Any]:
    of_fleet = (demand_override.c.fleet == fleet) & demand_override.c.ended_at.is_(None)
    return of_fleet if model is None else of_fleet & (demand_override.c.model == model)
