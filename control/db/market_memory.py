"""Answers of clouds, in PostgreSQL: every call for a node of an offer, and what all processes learn from it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

import msgspec
from sqlalchemy import delete, func, insert, null, select, update
from sqlalchemy.dialects.postgresql import insert as upsert

from control.db.database import Database
from control.db.market_tables import market_memory, offer_call
from policies.availability import CallOutcome, Learned

Learn = Callable[[str, Learned | None], Learned | None]
"""Subject and what is known of it → what is known then; None: as it was."""


@dataclass(frozen=True, slots=True)
class OfferCalls:
    """Calls for nodes of one offer in a window of time."""

    offer: str
    calls: int
    granted: int
    most_in_a_minute: int
    last_at: datetime
    last_outcome: CallOutcome
    last_reason: str


@dataclass(frozen=True, slots=True)
class PostgresMarketMemory:
    """Every method also raises DatabaseUnavailableError."""

    database: Database

    def note(
        self, offer: str, outcome: CallOutcome, reason: str, subjects: Iterable[str], learn: Learn, now: datetime
    ) -> None:
        """Record a call for a node of `offer`, and let `learn` judge what is known of each subject after it.

        Writers of one subject take turns, so that none overwrites what another has just learned.
        """
        with self.database.transaction() as connection:
            call = {"offer": offer, "at": now, "outcome": outcome, "reason": reason}
            connection.execute(insert(offer_call), call)
            for subject in sorted(subjects):  # in one order, or two writers could wait for each other
                new = upsert(market_memory).values(subject=subject, learned=null(), version=0)
                connection.execute(new.on_conflict_do_nothing())
                mine = market_memory.c.subject == subject
                row = connection.execute(select(market_memory).where(mine).with_for_update()).one()
                known = None if row.learned is None else msgspec.json.decode(row.learned, type=Learned)
                learned = learn(subject, known)
                if learned is not None:
                    changed = update(market_memory).where(mine).values(learned=learned, version=row.version + 1)
                    connection.execute(changed)

    def read(self) -> dict[str, Learned]:
        """Return what is learned by subject."""
        query = select(market_memory).where(market_memory.c.learned.is_not(None))
        rows = self.database.read(query)
        return {row.subject: msgspec.json.decode(row.learned, type=Learned) for row in rows}

    def calls(self, since: datetime) -> tuple[OfferCalls, ...]:
        """Return the calls for every offer that was asked since then, the busiest first. A minute is one of the
        clock."""
        minute = func.date_trunc("minute", offer_call.c.at)
        recent = offer_call.c.at >= since
        by_minute = (
            select(
                offer_call.c.offer,
                func.count().label("calls"),
                func.count().filter(offer_call.c.outcome == CallOutcome.GRANTED).label("granted"),
                func.max(offer_call.c.sequence).label("last"),
            )
            .where(recent)
            .group_by(offer_call.c.offer, minute)
            .subquery()
        )
        whole = (
            select(
                by_minute.c.offer,
                func.sum(by_minute.c.calls).label("calls"),
                func.sum(by_minute.c.granted).label("granted"),
                func.max(by_minute.c.calls).label("most"),
                func.max(by_minute.c.last).label("last"),
            )
            .group_by(by_minute.c.offer)
            .subquery()
        )
        query = (
            select(whole, offer_call.c.at, offer_call.c.outcome, offer_call.c.reason)
            .join(offer_call, offer_call.c.sequence == whole.c.last)
            .order_by(whole.c.most.desc(), whole.c.offer)
        )
        rows = self.database.read(query)
        return tuple(
            OfferCalls(
                row.offer, int(row.calls), int(row.granted), int(row.most), row.at, CallOutcome(row.outcome), row.reason
            )
            for row in rows
        )

    def forget_calls(self, before: datetime) -> None:
        """Drop calls made before then; what was learned from them stays."""
        self.database.write(delete(offer_call).where(offer_call.c.at < before))
