"""Numbers of calls to clouds for nodes, and what is avoided because of their answers: for people."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from control.db.market_memory import OfferCalls
from policies.availability import CallOutcome, Learned, is_excluded, success_estimate


@dataclass(frozen=True, slots=True)
class CallLine:
    subject: str
    """An offer; or a quota family or cloud that is avoided, which no call is counted for."""
    calls: int
    granted: int
    most_in_a_minute: int
    success_estimate: float
    outcome: CallOutcome
    """Outcome of the last call."""
    reason: str
    avoided_until: datetime | None
    """None: it may be asked."""


def call_report(calls: Iterable[OfferCalls], memory: Mapping[str, Learned], now: datetime) -> tuple[CallLine, ...]:
    """The busiest offers first, then what else is avoided."""
    lines = [
        CallLine(
            each.offer, each.calls, each.granted, each.most_in_a_minute, _estimate(memory.get(each.offer), now),
            each.last_outcome, each.last_reason, _until(memory.get(each.offer), now),
        )
        for each in calls
    ]  # fmt: skip
    named = {line.subject for line in lines}
    for subject, known in sorted(memory.items()):
        if subject not in named and is_excluded(known, now):
            estimate = success_estimate(known, now)
            lines.append(CallLine(subject, 0, 0, 0, estimate, known.outcome, known.reason, known.excluded_until))
    return tuple(lines)


def _estimate(known: Learned | None, now: datetime) -> float:
    return 1.0 if known is None else success_estimate(known, now)


def _until(known: Learned | None, now: datetime) -> datetime | None:
    return known.excluded_until if known is not None and is_excluded(known, now) else None
