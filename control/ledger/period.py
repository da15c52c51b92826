"""Spans of time that money is counted in. Days and months are UTC's, as on the bills of clouds."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta


@dataclass(frozen=True, slots=True)
class Period:
    """Time from `since` until just before `until`; both aware. ValueError when it ends before it begins."""

    since: datetime
    until: datetime

    def __post_init__(self) -> None:
        if self.until < self.since:
            raise ValueError(
                f"the period ends at {self.until.isoformat()}, before it begins ({self.since.isoformat()})"
            )

    @property
    def hours(self) -> float:
        return (self.until - self.since).total_seconds() / 3600


def day_so_far(now: datetime) -> Period:
    return Period(now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0), now)


def month_so_far(now: datetime) -> Period:
    return Period(_month_begin(now), now)


def rest_of_month(now: datetime) -> Period:
    # No month has 32 days, and each has more than 28: the 32nd day after its first is in the next one.
    return Period(now, _month_begin(_month_begin(now) + timedelta(days=32)))


def _month_begin(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
