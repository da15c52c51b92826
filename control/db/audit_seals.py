"""Seals of events in PostgreSQL: a chain of hashes that shows when an event was changed or taken out.

Events are sealed soon after they were committed, in an order of their own (`position`), so that nobody who writes one
waits for another. Rows are only added: triggers of the database refuse the rest. Whoever owns the database can still
put a whole other chain there; a seal that is kept elsewhere (`medley audit verify` prints the newest) shows that too.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC
from typing import Any

from sqlalchemy import BigInteger, Connection, Row, cast, func, insert, literal, select, text

from control.db.database import Database
from control.db.events import UNREADABLE, past_event
from control.db.reconcile_tables import event, event_seal
from control.lifecycle.audit_chain import START, digest, raw_digest

SEALS_S = 10.0
"""How often the control plane seals what is new."""
_LOCK = 0x6D65646C_7365616C  # "medlseal"; any constant that all releases share
_BATCH = 5000
_LATE = 10_000
"""Sequences below the highest that is sealed in which events are looked for that were committed late."""
_MOST_FINDINGS = 20


@dataclass(frozen=True, slots=True)
class Seal:
    """Place in the chain; `str` is how people keep it."""

    position: int
    digest: bytes

    def __str__(self) -> str:
        return f"{self.position}:{self.digest.hex()}"

    @classmethod
    def read(cls, written: str) -> "Seal":
        """Raises ValueError."""
        position, _, hexadecimal = written.partition(":")
        try:
            seal = cls(int(position), bytes.fromhex(hexadecimal))
        except ValueError:
            seal = cls(0, b"")
        if seal.position < 1 or len(seal.digest) != len(START):
            raise ValueError(f"{written!r} is no seal: give one as `medley audit verify` prints it, POSITION:SHA256")
        return seal


@dataclass(frozen=True, slots=True)
class Verdict:
    events: int
    """Events whose seals were checked."""
    newest: Seal | None
    findings: tuple[str, ...]
    """What is wrong, the first of it; empty: nothing."""


@dataclass(frozen=True, slots=True)
class PostgresAuditSeals:
    """Every method also raises DatabaseUnavailableError."""

    database: Database

    def seal(self) -> int:
        """Seal what is not sealed yet; return how many events. Any number of processes may: one of them does."""
        count = 0
        while sealed := self._seal(late=_LATE):
            count += sealed
        return count

    def verify(self, kept: Seal | None = None) -> Verdict:
        """Check every seal, oldest first, after sealing what is new. `kept`: one from an earlier time, that the chain
        must still hold."""
        while self._seal(late=None):
            pass
        findings, newest, count = list[str](), Seal(0, START), 0
        for position, before, stored, row in self._chain():
            if position != newest.position + 1:
                findings.append(f"seals {newest.position + 1} to {position - 1} are gone, with their events")
            if row.sequence is None:
                findings.append(f"event {row.event} is gone (seal {position})")
            elif _digest(before, row) != stored:
                findings.append(f"event {row.event} is not as it was sealed (seal {position}): {row.kind} of {row.at}")
            if kept is not None and kept.position == position and kept.digest != stored:
                findings.append(f"seal {position} is another than the one that you kept")
            newest, count = Seal(position, stored), count + 1
            if len(findings) >= _MOST_FINDINGS:
                break
        if kept is not None and kept.position > newest.position and not findings:
            findings.append(f"the chain ends at seal {newest.position}, before the one that you kept")
        return Verdict(count, newest if count else None, tuple(findings))

    def _chain(self) -> Iterator[tuple[int, bytes, bytes, Any]]:
        """Yield each seal's position, the digest that it follows, its own, and its event's row."""
        query = select(event_seal.c.position, event_seal.c.event, event_seal.c.digest, *event.c)
        query = query.outerjoin(event, event.c.sequence == event_seal.c.event).order_by(event_seal.c.position)
        before, after = START, 0
        while rows := self.database.read(query.where(event_seal.c.position > after).limit(_BATCH)):
            for row in rows:
                yield row.position, before, row.digest, row
                before, after = row.digest, row.position

    def _seal(self, late: int | None) -> int:
        """Seal a batch of events. `late`: as `_LATE`; None: look at all."""
        with self.database.transaction() as connection:
            if not connection.execute(text("SELECT pg_try_advisory_xact_lock(:key)"), {"key": _LOCK}).scalar_one():
                return 0
            newest = _newest(connection)
            query = select(event).outerjoin(event_seal, event_seal.c.event == event.c.sequence)
            query = query.where(event_seal.c.event.is_(None)).order_by(event.c.sequence).limit(_BATCH)
            if late is not None:
                highest = select(func.coalesce(func.max(event_seal.c.event), 0)).scalar_subquery()
                query = query.where(event.c.sequence > highest - cast(literal(late), BigInteger))
            seals = []
            for row in connection.execute(query):
                newest = Seal(newest.position + 1, _digest(newest.digest, row))
                seals.append({"position": newest.position, "event": row.sequence, "digest": newest.digest})
            if seals:
                connection.execute(insert(event_seal), seals)
            return len(seals)


def _digest(before: bytes, row: Row[Any]) -> bytes:
    try:
        return digest(before, past_event(row))
    except UNREADABLE:
        # Nothing in Medley writes such a detail. That one row must not keep others from being sealed and checked.
        about = (row.actor, row.kind, row.text, row.fleet, row.subject, row.trace)
        return raw_digest(before, (row.sequence, row.at.astimezone(UTC).isoformat(), *about, row.detail))


def _newest(connection: Connection) -> Seal:
    query = select(event_seal.c.position, event_seal.c.digest).order_by(event_seal.c.position.desc()).limit(1)
    row = connection.execute(query).one_or_none()
    return Seal(0, START) if row is None else Seal(row.position, row.digest)
