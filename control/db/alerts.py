"""Alerts in PostgreSQL: opened, escalated and resolved, each step with what is to be sent about it, once."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, Row, and_, exists, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert

from control.db.alert_tables import alert as alert_table
from control.db.alert_tables import delivery, webhook
from control.db.database import Database
from control.db.reconcile_tables import fleet
from control.db.webhooks import Webhook
from policies.alert_rules import Alert, Severity

CALM = timedelta(minutes=5)
"""An alert is resolved when no rule has said it for so long: what comes and goes is one alert."""
MOST_PENDING = 1000
"""Deliveries that may wait for one webhook; beyond that the oldest are given up."""
_BATCH = 20


@dataclass(frozen=True, slots=True)
class PastAlert:
    id: int
    kind: str
    subject: str
    severity: str
    text: str
    opened_at: str
    """ISO 8601, UTC."""
    resolved_at: str
    """Empty: it is open."""


@dataclass(frozen=True, slots=True)
class DueDelivery:
    id: int
    event: str
    body: str
    attempts: int
    """This one included."""
    webhook: Webhook


@dataclass(frozen=True, slots=True)
class PostgresAlerts:
    """Every method also raises DatabaseUnavailableError."""

    database: Database

    def observe(self, firing: Iterable[Alert], webhooks: Iterable[Webhook], now: datetime) -> None:
        """Record the alerts that hold `now`. New alerts are opened, worse ones escalated, those that are over resolved,
        and for each of these steps a delivery is recorded for every webhook that takes its kind. A repeated call
        changes nothing."""
        with self.database.transaction() as connection:
            # Held until the end: to one that is removed meanwhile nothing could be addressed, and all else would fail.
            there = set(connection.execute(select(webhook.c.name).with_for_update(read=True, key_share=True)).scalars())
            takers = tuple(each for each in webhooks if each.name in there)
            for each in firing:
                _fire(connection, each, takers, now)
            ended = and_(alert_table.c.seen_at < now, _is_of_no_fleet())  # it cannot come back: nothing is waited for
            calm = alert_table.c.seen_at <= now - CALM
            over = update(alert_table).where(alert_table.c.resolved_at.is_(None), or_(calm, ended))
            for row in connection.execute(over.values(resolved_at=now).returning(*alert_table.c)).all():
                _tell(connection, "resolved", row, takers, now)

    def recent(self, limit: int, *, open_only: bool = False, before: int | None = None) -> tuple[PastAlert, ...]:
        """The newest first; `before`: of those, only older ones than that id."""
        query = select(alert_table).order_by(alert_table.c.id.desc()).limit(limit)
        if open_only:
            query = query.where(alert_table.c.resolved_at.is_(None))
        if before is not None:
            query = query.where(alert_table.c.id < before)
        rows = self.database.read(query)
        return tuple(
            PastAlert(
                row.id, row.kind, row.subject, Severity(row.severity).name.lower(), row.text, _iso(row.opened_at),
                _iso(row.resolved_at) if row.resolved_at else "",
            )
            for row in rows
        )  # fmt: skip

    def take_due(self, now: datetime, lease: timedelta) -> tuple[DueDelivery, ...]:
        """Deliveries that are due, the oldest first, for the caller alone until the lease is over."""
        due = (
            select(delivery.c.id)
            .where(delivery.c.next_at <= now)
            .order_by(delivery.c.next_at, delivery.c.id)
            .limit(_BATCH)
            .with_for_update(skip_locked=True)
        )
        taken = (
            update(delivery)
            .where(delivery.c.id.in_(due.scalar_subquery()), delivery.c.webhook == webhook.c.name)
            .values(next_at=now + lease, attempts=delivery.c.attempts + 1)
            .returning(
                *delivery.c, webhook.c.name, webhook.c.url, webhook.c.secret, webhook.c.kinds, webhook.c.internal
            )
        )
        rows = self.database.read(taken)
        return tuple(sorted((_due(row) for row in rows), key=lambda each: each.id))

    def delivered(self, delivery_id: int, outcome: str, now: datetime) -> None:
        self._settle(delivery_id, {"delivered_at": now, "next_at": None, "outcome": outcome})

    def failed(self, delivery_id: int, outcome: str, next_at: datetime | None) -> None:
        """Record that a delivery failed and is tried again at `next_at`; None when it is given up."""
        self._settle(delivery_id, {"next_at": next_at, "outcome": outcome})

    def pending(self) -> Mapping[str, tuple[int, str]]:
        """Webhook → how many deliveries wait, and what the last attempt at the oldest of them said."""
        query = select(delivery.c.webhook, delivery.c.outcome).where(delivery.c.next_at.is_not(None))
        found: dict[str, tuple[int, str]] = {}
        for row in self.database.read(query.order_by(delivery.c.id.desc())):
            found[row.webhook] = found.get(row.webhook, (0, ""))[0] + 1, row.outcome
        return found

    def _settle(self, delivery_id: int, values: dict[str, Any]) -> None:
        settled = update(delivery).where(delivery.c.id == delivery_id, delivery.c.delivered_at.is_(None))
        self.database.write(settled.values(values))


def _is_of_no_fleet() -> ColumnElement[bool]:
    """Whether an alert's subject, `fleet NAME` or `fleet NAME, …`, names a fleet that is not there any more."""
    subject, name = alert_table.c.subject, "fleet " + fleet.c.name
    there = exists().where(or_(subject == name, func.starts_with(subject, name + ", ")))
    return and_(func.starts_with(subject, "fleet "), ~there)


def _fire(connection: Connection, each: Alert, takers: tuple[Webhook, ...], now: datetime) -> None:
    values = {"severity": each.severity, "text": each.text, "seen_at": now}
    new = insert(alert_table).values(values | {"kind": each.kind, "subject": each.subject, "opened_at": now})
    is_open = alert_table.c.resolved_at.is_(None)
    keys = [alert_table.c.kind, alert_table.c.subject]
    opened = connection.execute(
        new.on_conflict_do_nothing(index_elements=keys, index_where=is_open).returning(*alert_table.c)
    ).one_or_none()
    if opened is not None:
        _tell(connection, "opened", opened, takers, now)
        return
    of_it = (alert_table.c.kind == each.kind, alert_table.c.subject == each.subject, is_open)
    worse = update(alert_table).where(*of_it, alert_table.c.severity < each.severity)
    escalated = connection.execute(worse.values(values).returning(*alert_table.c)).one_or_none()
    if escalated is not None:
        _tell(connection, "escalated", escalated, takers, now)
    else:
        connection.execute(update(alert_table).where(*of_it).values(seen_at=func.greatest(alert_table.c.seen_at, now)))


def _tell(connection: Connection, event: str, row: Row[Any], takers: tuple[Webhook, ...], now: datetime) -> None:
    body = {
        "event": f"alert.{event}",
        "alert": {
            "id": row.id,
            "kind": row.kind,
            "subject": row.subject,
            "severity": Severity(row.severity).name.lower(),
            "text": row.text,
            "opened_at": _iso(row.opened_at),
        },
        "at": _iso(now),
    }
    text = msgspec.json.encode(body).decode()
    for taker in takers:
        if not taker.takes(row.kind):
            continue
        new = {"alert_id": row.id, "webhook": taker.name, "event": f"alert.{event}", "body": text}
        statement = insert(delivery).values(new | {"attempts": 0, "next_at": now, "outcome": ""})
        connection.execute(statement.on_conflict_do_nothing())
        beyond = (
            select(delivery.c.id)
            .where(delivery.c.webhook == taker.name, delivery.c.next_at.is_not(None))
            .order_by(delivery.c.id.desc())
            .offset(MOST_PENDING)
        )
        dropped = update(delivery).where(delivery.c.id.in_(beyond.scalar_subquery()))
        connection.execute(dropped.values(next_at=None, outcome=f"given up: more than {MOST_PENDING} were waiting"))


def _due(row: Row[Any]) -> DueDelivery:
    kinds = msgspec.json.decode(row.kinds, type=tuple[str, ...])
    return DueDelivery(
        row.id, row.event, row.body, row.attempts, Webhook(row.name, row.url, row.secret, kinds, row.internal)
    )


def _iso(at: datetime) -> str:
    return at.astimezone(UTC).isoformat()
