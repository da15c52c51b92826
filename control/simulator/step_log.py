"""A quantity over time, that holds from each change to the next."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class StepLog:
    """`values[i]` holds from `times_s[i]` (ascending; the first holds before it too) on. ValueError for no value."""

    times_s: tuple[float, ...]
    values: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.times_s or len(self.times_s) != len(self.values) or list(self.times_s) != sorted(self.times_s):
            raise ValueError("a log needs a value for each of its times, and its times in order")

    def at(self, time_s: float) -> float:
        return self.values[max(bisect_right(self.times_s, time_s) - 1, 0)]

    def changes(self, after_s: float, until_s: float) -> Iterator[tuple[float, float]]:
        """(time, value) of the changes in (after, until]."""
        first = bisect_right(self.times_s, after_s)
        for n in range(first, bisect_right(self.times_s, until_s)):
            yield self.times_s[n], self.values[n]

    def integral(self, from_s: float, until_s: float) -> float:
        """Integral of the value over seconds."""
        edges = [from_s, *(time for time, _ in self.changes(from_s, until_s)), until_s]
        return sum(self.at(a) * (b - a) for a, b in pairwise(edges))


def step_log(steps: Iterable[tuple[float, float]]) -> StepLog:
    """A log of (time, value) pairs in any order; steps that change nothing are left out."""
    kept: list[tuple[float, float]] = []
    for time, value in sorted(steps):
        if not kept or value != kept[-1][1]:
            kept.append((time, value))
    return StepLog(tuple(time for time, _ in kept), tuple(value for _, value in kept))
