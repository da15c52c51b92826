"""Models of people's own in PostgreSQL: an architecture that fleets may name, beside those of the catalogue."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, delete, select, update
from sqlalchemy.dialects.postgresql import insert

from control.db.api_tables import model
from control.db.database import Database
from control.db.errors import InUseError
from control.db.guarded import lock_row
from control.db.nearest import not_stored
from control.fleet_file.own_model import OwnModel


@dataclass(frozen=True, slots=True)
class RegisteredModel:
    own: OwnModel
    version: int
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class PostgresModels:
    """Every method also raises DatabaseUnavailableError; those that name a model NotStoredError with the nearest;
    those that name a version StaleVersionError, and write nothing, when it is at another."""

    database: Database

    def create(self, own: OwnModel, now: datetime) -> RegisteredModel:
        """Register a model. Raises InUseError when there is one of that name."""
        name = own.name
        row = {"name": name, "config": dict(own.config), "weights": own.weights, "version": 1}
        new = insert(model).values(row | {"created_at": now, "updated_at": now}).on_conflict_do_nothing()
        with self.database.transaction() as connection:
            if connection.execute(new.returning(model.c.name)).scalar_one_or_none() is None:
                raise InUseError(f"there is a model {name!r} already: change that one, or choose another name")
            return _load(connection, name)

    def replace(self, own: OwnModel, version: int, now: datetime) -> RegisteredModel:
        name = own.name
        values = {"config": dict(own.config), "weights": own.weights, "version": version + 1, "updated_at": now}
        with self.database.transaction() as connection:
            lock_row(connection, model, name, version)
            connection.execute(update(model).where(model.c.name == name).values(values))
            return _load(connection, name)

    def remove(self, name: str, version: int) -> None:
        with self.database.transaction() as connection:
            lock_row(connection, model, name, version)
            connection.execute(delete(model).where(model.c.name == name))

    def load(self, name: str) -> RegisteredModel:
        with self.database.transaction() as connection:
            return _load(connection, name)

    def own(self) -> tuple[OwnModel, ...]:
        """List the models that specs may name."""
        return tuple(registered.own for registered in self.all())

    def all(self) -> tuple[RegisteredModel, ...]:
        """List all models by name."""
        return tuple(_model(row) for row in self.database.read(select(model).order_by(model.c.name)))


def _load(connection: Connection, name: str) -> RegisteredModel:
    row = connection.execute(select(model).where(model.c.name == name)).one_or_none()
    if row is None:
        raise not_stored("model", name, connection.execute(select(model.c.name)).scalars().all())
    return _model(row)


def _model(row: Row[Any]) -> RegisteredModel:
    config = msgspec.json.decode(row.config, type=dict[str, Any])
    return RegisteredModel(OwnModel(row.name, config, row.weights), row.version, row.created_at, row.updated_at)
