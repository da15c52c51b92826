"""Webhooks in PostgreSQL: where alerts are sent. Secrets are not among what is stored, only where they are."""

from dataclasses import dataclass
from datetime import datetime

import msgspec
from sqlalchemy import delete, select
from sqlalchemy.dialects.postgresql import insert

from control.db.alert_tables import webhook
from control.db.database import Database
from control.db.errors import NotStoredError


@dataclass(frozen=True, slots=True)
class Webhook:
    name: str
    url: str
    secret: str
    """Where it is: env:NAME or file:/PATH."""
    kinds: tuple[str, ...]
    """Of alerts that are sent there; empty: all."""
    internal: bool

    def takes(self, kind: str) -> bool:
        return not self.kinds or kind in self.kinds


@dataclass(frozen=True, slots=True)
class PostgresWebhooks:
    """Every method also raises DatabaseUnavailableError."""

    database: Database

    def put(self, made: Webhook, now: datetime) -> None:
        """In place of the one of that name."""
        values = {"url": made.url, "secret": made.secret, "kinds": list(made.kinds), "internal": made.internal}
        new = insert(webhook).values(values | {"name": made.name, "created_at": now})
        with self.database.transaction() as connection:
            connection.execute(new.on_conflict_do_update(index_elements=[webhook.c.name], set_=values))

    def all(self) -> tuple[Webhook, ...]:
        """By name."""
        with self.database.transaction() as connection:
            rows = connection.execute(select(webhook).order_by(webhook.c.name)).all()
        kinds = (msgspec.json.decode(row.kinds, type=tuple[str, ...]) for row in rows)
        return tuple(
            Webhook(row.name, row.url, row.secret, of, row.internal) for row, of in zip(rows, kinds, strict=True)
        )

    def remove(self, name: str) -> None:
        """And what was still to be sent there. Raises NotStoredError."""
        gone = delete(webhook).where(webhook.c.name == name).returning(webhook.c.name)
        with self.database.transaction() as connection:
            if connection.execute(gone).scalar_one_or_none() is None:
                raise NotStoredError(f"there is no webhook {name!r}")
