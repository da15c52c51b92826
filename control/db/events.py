"""Events in PostgreSQL: added, never changed, read in pages."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec
from sqlalchemy import Row, insert, select

from control.db.database import Database
from control.db.reconcile_tables import event as event_table
from control.lifecycle.fleet_event import FleetEvent, PastEvent

UNREADABLE = (msgspec.MsgspecError, ValueError, OverflowError)
"""What `past_event` raises for a row that Medley has not written: its detail is no flat object, or its time no date."""
_MOST_SHOWN = 500
"""Characters of such a detail that lists show."""


@dataclass(frozen=True, slots=True)
class PostgresEvents:
    """Every method also raises DatabaseUnavailableError."""

    database: Database

    def add(self, events: Sequence[FleetEvent], now: datetime) -> None:
        if not events:
            return
        rows = [
            {
                "at": now,
                "actor": event.actor,
                "kind": event.kind,
                "fleet": event.fleet,
                "subject": event.subject,
                "text": event.text,
                "detail": dict(event.detail),
                "trace": event.trace,
            }
            for event in events
        ]
        self.database.write(insert(event_table), rows)

    def page(
        self, limit: int, *, before: int | None = None, fleet: str = "", subject: str = "", kind: str = ""
    ) -> tuple[PastEvent, ...]:
        """The newest `limit` with a sequence below `before`, newest first, of all or of one fleet, subject or kind."""
        query = select(event_table).order_by(event_table.c.sequence.desc()).limit(limit)
        if before is not None:
            query = query.where(event_table.c.sequence < before)
        given = {event_table.c.fleet: fleet, event_table.c.subject: subject, event_table.c.kind: kind}
        for column, value in given.items():
            if value:
                query = query.where(column == value)
        return self._read(query)

    def since(self, sequence: int, limit: int) -> tuple[PastEvent, ...]:
        """The first `limit` after `sequence`, oldest first: for whoever follows along.

        Two writers may commit in another order than their sequences: whoever must not miss one reads some again.
        """
        query = select(event_table).where(event_table.c.sequence > sequence).order_by(event_table.c.sequence)
        return self._read(query.limit(limit))

    def _read(self, query: Any) -> tuple[PastEvent, ...]:
        rows = self.database.read(query)
        return tuple(_shown(row) for row in rows)


def past_event(row: Row[Any]) -> PastEvent:
    """Return the event of a row of the table. Raises one of `UNREADABLE` for a row that Medley has not written."""
    detail = msgspec.json.decode(row.detail, type=dict[str, str | int | float | bool])
    event = FleetEvent(row.actor, row.kind, row.text, row.fleet, row.subject, detail, row.trace)
    return PastEvent(row.sequence, row.at.astimezone(UTC).isoformat(), event)


def _shown(row: Row[Any]) -> PastEvent:
    """Return the event of a row; one that Medley has not written with its detail as text, since it must not hide all
    that are listed with it."""
    try:
        return past_event(row)
    except UNREADABLE:
        raw = bytes(row.detail).decode(errors="replace")
        detail = {"unreadable": raw if len(raw) <= _MOST_SHOWN else f"{raw[:_MOST_SHOWN]}…"}
        event = FleetEvent(row.actor, row.kind, row.text, row.fleet, row.subject, detail, row.trace)
        return PastEvent(row.sequence, row.at.isoformat(), event)
