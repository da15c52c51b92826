"""What is on record of a fleet in a span, and whether that is enough to go through it again."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from control.db.database import Database
from control.db.past import (
    PastCall,
    PastInstance,
    PastLoad,
    PastNode,
    PastOverride,
    PastPlan,
    PostgresPast,
    RecordedEvent,
)

LEAST = timedelta(minutes=10)
_REMEMBERED = timedelta(days=2)
"""How long clouds' answers are remembered: after eight half-lives they are forgotten (`policies.availability`)."""
_MISSED_PLANS = 3
"""Missed plans in a row that make a gap: one may fail, and one may be late."""
_SLACK = timedelta(minutes=5)
UNHEARD = timedelta(minutes=15)
"""Time without a report of any gateway that is a gap."""


class NotRecordedError(ValueError):
    """The span cannot be replayed; the message says what is missing."""


@dataclass(frozen=True, slots=True, eq=False)
class Span:
    fleet: str
    since: datetime
    until: datetime
    begin: datetime
    """Start of the replay: the last plan before the span, or the first in it. So plans are made when they were made."""
    plans: tuple[PastPlan, ...]
    """Plans from `begin` on."""
    instances: tuple[PastInstance, ...]
    """Instances of this fleet, from `begin` on."""
    nodes: tuple[PastNode, ...]
    """The same of all fleets."""
    calls: tuple[PastCall, ...]
    """Calls for nodes, with those that were remembered at `begin`."""
    events: tuple[RecordedEvent, ...]
    """Events of the fleet itself, from `begin` on."""
    load: tuple[PastLoad, ...]
    overrides: tuple[PastOverride, ...]
    held: tuple[datetime, str] | None
    """The plan that the fleet was held to before `begin`, and since when; None: none."""

    @property
    def length_s(self) -> float:
        return (self.until - self.since).total_seconds()

    def seconds(self, at: datetime) -> float:
        """Since the span began; below 0 before it."""
        return (at - self.since).total_seconds()


def read_span(
    database: Database, fleet: str, since: datetime, until: datetime, now: datetime, replan: timedelta
) -> Span:
    """`replan`: between two plans of the loop that was recorded.

    Raises NotRecordedError for a span that is too short, is not over, begins before the record does, or has gaps in
    which no plan was made; DatabaseUnavailableError.
    """
    past = PostgresPast(database)
    if until - since < LEAST:
        raise NotRecordedError(f"a span of {_minutes(until - since)} is too short: {_minutes(LEAST)} are the least")
    if until > now:
        raise NotRecordedError(f"the span ends at {_text(until)}, which is still to come (it is {_text(now)})")
    known = past.span(fleet)
    if known is None:
        raise NotRecordedError(f"nothing is on record of fleet {fleet!r}: `medley reconcile` has not planned it yet")
    most = _MISSED_PLANS * replan + _SLACK
    plans = past.plans(fleet, since - most, until)
    _refuse_gaps(fleet, [plan.at for plan in plans], (since, until), most, known)
    before = [plan for plan in plans if plan.at <= since]
    begin = before[-1].at if before else plans[0].at
    return Span(
        fleet,
        since,
        until,
        begin,
        tuple(plan for plan in plans if plan.at >= begin),
        past.instances(fleet, begin, until),
        past.nodes(begin, until),
        past.calls(begin - _REMEMBERED, until),
        past.events(fleet, begin, until),
        past.load(fleet, since, until),
        past.overrides(fleet, begin, until),
        past.accepted(fleet, begin),
    )


def refuse_unheard(span: Span, apps: Iterable[str]) -> None:
    """Raises NotRecordedError when gateways reported nothing of metered `apps` for a while, or of one of them never."""
    wanted = set(apps)
    if not wanted:
        return
    heard = {load.app for load in span.load}
    if unheard := sorted(wanted - heard):
        raise NotRecordedError(
            f"no gateway reported demand for {', '.join(unheard)} between {_text(span.since)} and {_text(span.until)}: "
            f"known are {', '.join(sorted(heard)) or 'none'}"
        )
    times = sorted({(load.at, load.at + timedelta(seconds=_lasts(load))) for load in span.load})
    edges = [(span.since, span.since), *times, (span.until, span.until)]
    gaps, reached = [], span.since
    for at, end in edges:
        if at - reached > UNHEARD:
            gaps.append((reached, at))
        reached = max(reached, end)
    if gaps:
        raise NotRecordedError(_gap_text("no gateway reported demand", gaps, (span.since, span.until)))


def _lasts(load: PastLoad) -> int:
    """An hour's row says how long gateways watched, not when."""
    return 3600 if load.seconds > 60 else load.seconds


def _refuse_gaps(
    fleet: str,
    plans: Sequence[datetime],
    span: tuple[datetime, datetime],
    most: timedelta,
    known: tuple[datetime, datetime],
) -> None:
    since, until = span
    if not any(at < until for at in plans) or (plans[0] > since + most and known[0] > since):
        raise NotRecordedError(
            f"fleet {fleet!r} was not planned from {_text(since)} on: it is on record from {_text(known[0])} to "
            f"{_text(known[1])}"
        )
    edges = [since, *(at for at in plans if at > since), until]
    if plans[0] <= since:
        edges[0] = max(at for at in plans if at <= since)
    gaps = [(max(a, since), b) for a, b in pairwise(edges) if b - a > most]
    if gaps:
        raise NotRecordedError(_gap_text("no plan was made", gaps, span))


def _gap_text(what: str, gaps: Sequence[tuple[datetime, datetime]], span: tuple[datetime, datetime]) -> str:
    shown = ", ".join(f"from {_text(a)} to {_text(b)}" for a, b in gaps[:3])
    more = f" and {len(gaps) - 3} times more" if len(gaps) > 3 else ""
    ends = [span[0], *(end for _, end in gaps)]
    starts = [*(begin for begin, _ in gaps), span[1]]
    whole = max(zip(ends, starts, strict=True), key=lambda part: part[1] - part[0])
    hint = f"; the longest part without a gap is --since {_text(whole[0])} --until {_text(whole[1])}"
    return f"{what} {shown}{more}{hint if whole[1] - whole[0] >= LEAST else ''}"


def _text(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M")


def _minutes(length: timedelta) -> str:
    return f"{length.total_seconds() / 60:g} minutes"
