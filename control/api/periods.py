"""Spans of time that a caller names."""

from datetime import datetime, timedelta
from typing import Annotated

from fastapi import Query
from pydantic import AwareDatetime

from control.api.problem import ApiError, field_problem
from control.ledger.period import Period

MAX_POINTS = 200
Since = Annotated[AwareDatetime | None, Query(description="Begin, with its zone (2026-11-01T00:00:00Z).")]
Until = Annotated[AwareDatetime | None, Query(description="End; default, and at most: now.")]
Points = Annotated[int, Query(ge=1, le=MAX_POINTS, description="Equal parts of the span.")]
_MOST = timedelta(days=3660)


def period(
    since: datetime | None,
    until: datetime | None,
    now: datetime,
    otherwise: timedelta | datetime,
    most: timedelta = _MOST,
) -> Period:
    """The span of a query; `otherwise`: its begin where `since` is None, or how long ago. Raises ApiError 422, also for
    one that is longer than `most`."""
    end = min(until or now, now)
    begin = since or (otherwise if isinstance(otherwise, datetime) else _before(end, otherwise))
    if not begin <= end:
        raise _wrong(f"it begins at {begin.isoformat()}, after its end at {end.isoformat()}")
    if end - begin > most:
        raise _wrong(f"it is more than {most.days:,} days before its end at {end.isoformat()}")
    return Period(begin, end)


def _before(end: datetime, span: timedelta) -> datetime:
    try:
        return end - span
    except OverflowError:
        raise _wrong(f"nothing is before its end at {end.isoformat()}") from None


def parts(whole: Period, count: int) -> list[Period]:
    step = (whole.until - whole.since) / count
    bounds = [whole.since + step * n for n in range(count)] + [whole.until]
    return [Period(*bounds[n : n + 2]) for n in range(count)]


def _wrong(message: str) -> ApiError:
    return ApiError(422, "invalid", f"since: {message}", errors=[field_problem(("query", "since"), message)])
