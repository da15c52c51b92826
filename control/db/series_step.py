"""Steps of a time series, and what it is of."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

FINE = timedelta(hours=26)
"""What is longer ago is read from hours."""
_LADDER_S = (60, 300, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 604_800, 2_592_000)
"""Lengths that people know, each a multiple of the one before it or of an hour."""
_HOUR_S = 3600


@dataclass(frozen=True, slots=True)
class Steps:
    """Equal steps, whole ones of the clock (UTC); the last may not be over."""

    since: datetime
    until: datetime
    """End of what is known: within the last step."""
    step_s: int
    are_coarse: bool
    """Whether they are read from hours."""

    @classmethod
    def over(cls, since: datetime, until: datetime, most: int, now: datetime) -> "Steps":
        """Return the shortest steps of which at most `most`, and one more where they begin before `since`, cover a
        span; of what is longer ago than `FINE` of hours at least."""
        coarse = now - since > FINE
        span_s = (until - since).total_seconds()
        fits = [each for each in _LADDER_S if each * most >= span_s and (each >= _HOUR_S or not coarse)]
        step_s = fits[0] if fits else _LADDER_S[-1]
        begins_s = since.timestamp() // step_s * step_s
        return cls(datetime.fromtimestamp(begins_s, UTC), until, step_s, coarse)

    @property
    def count(self) -> int:
        return max(1, -int(-(self.until - self.since).total_seconds() // self.step_s))

    @property
    def at(self) -> list[datetime]:
        """When each begins."""
        return [self.since + timedelta(seconds=n * self.step_s) for n in range(self.count)]

    @property
    def bounds(self) -> list[datetime]:
        """Begin of each, and the end of the last."""
        return [*self.at, max(self.until, self.at[-1])]


@dataclass(frozen=True, slots=True)
class SeriesOf:
    """What is looked at; None: all."""

    fleet: str | None = None
    model: str | None = None
    """As clients name it."""
    models: tuple[str, ...] | None = None
    """As instances name what they run: its own name, and that of its architecture."""
    zone: str | None = None
    instance: str | None = None
