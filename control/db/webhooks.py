"""Webhooks in PostgreSQL: where alerts are sent. Secrets are not among what is stored, only where they are."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, delete, func, select
from sqlalchemy.dialects.postgresql import insert

from control.db.alert_tables import webhook
from control.db.database import Database
from control.db.errors import InUseError, StaleVersionError
from control.db.guarded import check_version
from control.db.nearest import not_stored

MOST = 100
"""Webhooks; each alert is sent to all of them that take its kind."""


@dataclass(frozen=True, slots=True)
class Webhook:
    name: str
    url: str
    secret: str
    """Place of the secret: env:NAME or file:/PATH."""
    kinds: tuple[str, ...]
    """Kinds of alerts that are sent there; empty: all."""
    internal: bool
    version: int = 0
    """Version of what is on record; 0: it is not."""

    def takes(self, kind: str) -> bool:
        return not self.kinds or kind in self.kinds


@dataclass(frozen=True, slots=True)
class PostgresWebhooks:
    """Every method also raises DatabaseUnavailableError; those that name one NotStoredError with the nearest name;
    with `version` (0: there is none) StaleVersionError, and nothing is written, when another one is there."""

    database: Database

    def put(self, made: Webhook, now: datetime, version: int | None = None) -> Webhook:
        """Put a webhook in place of the one of that name. InUseError when there are too many."""
        with self.database.transaction() as connection:
            found = _locked(connection, made.name)
            there = 0 if found is None else found.version
            if version is not None:
                check_version(f"webhook {made.name!r}", there, version)
            values = {
                "url": made.url,
                "secret": made.secret,
                "kinds": list(made.kinds),
                "internal": made.internal,
                "version": there + 1,
            }
            if found is not None:
                connection.execute(webhook.update().where(webhook.c.name == made.name).values(values))
                return replace(made, version=there + 1)
            if connection.execute(select(func.count()).select_from(webhook)).scalar_one() >= MOST:
                raise InUseError(f"there are {MOST} webhooks, which is the most there may be: remove one first")
            new = insert(webhook).values(values | {"name": made.name, "created_at": now})
            if connection.execute(new.on_conflict_do_nothing().returning(webhook.c.name)).one_or_none() is None:
                raise StaleVersionError(f"somebody else has made webhook {made.name!r} meanwhile: read it")
        return replace(made, version=1)

    def load(self, name: str) -> Webhook:
        with self.database.transaction() as connection:
            row = connection.execute(select(webhook).where(webhook.c.name == name)).one_or_none()
            if row is None:
                raise _unknown(connection, name)
        return _stored(row)

    def all(self) -> tuple[Webhook, ...]:
        """List all webhooks by name."""
        return tuple(_stored(row) for row in self.database.read(select(webhook).order_by(webhook.c.name)))

    def remove(self, name: str, version: int | None = None) -> None:
        """Remove a webhook and what was still to be sent there."""
        with self.database.transaction() as connection:
            found = _locked(connection, name)
            if found is None:
                raise _unknown(connection, name)
            if version is not None:
                check_version(f"webhook {name!r}", found.version, version)
            connection.execute(delete(webhook).where(webhook.c.name == name))


def _locked(connection: Connection, name: str) -> Webhook | None:
    row = connection.execute(select(webhook).where(webhook.c.name == name).with_for_update()).one_or_none()
    return None if row is None else _stored(row)


def _unknown(connection: Connection, name: str) -> Exception:
    return not_stored("webhook", name, connection.execute(select(webhook.c.name)).scalars().all())


def _stored(row: Row[Any]) -> Webhook:
    kinds = msgspec.json.decode(row.kinds, type=tuple[str, ...])
    return Webhook(row.name, row.url, row.secret, kinds, row.internal, row.version)
