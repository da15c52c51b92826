"""A replay beside what happened, as plain figures."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

import numpy as np

from control.simulator.replay.course import Course
from control.simulator.replay.replay import Replay


@dataclass(frozen=True, slots=True)
class Figures:
    usd: float
    planned_usd_per_hour: float | None
    """Mean over time of the plans in force; null: none was."""
    offered_requests: float
    """Requests of the planned lengths."""
    unmet_requests: float
    """Beyond the certified capacity of what was ready."""
    launched: int
    """Instances."""
    moved: int
    """Instances that were told to go though nothing ailed them."""
    failed: int
    refused: int
    """Calls for nodes."""

    @property
    def unmet_share(self) -> float:
        return self.unmet_requests / self.offered_requests if self.offered_requests else 0.0


@dataclass(frozen=True, slots=True)
class Line:
    since: str
    """ISO 8601, UTC."""
    happened: Figures
    replayed: Figures


@dataclass(frozen=True, slots=True)
class Comparison:
    fleet: str
    since: str
    until: str
    policy: tuple[str, ...]
    """What the replay did otherwise; empty: nothing."""
    seed: int
    happened: Figures
    replayed: Figures
    unpriced_node_hours: float
    """Hours of nodes that happened and whose price nobody knows: `happened.usd` lacks them."""
    steps: tuple[Line, ...]
    """Lines of an hour each; of ten minutes in a span of up to six hours."""
    plans: tuple[tuple[float, float], ...]
    """Plans of the replay: [seconds since the span began, $/h]."""
    troubles: tuple[str, ...]
    notes: tuple[str, ...]


def comparison(replay: Replay) -> Comparison:
    asked, steps = replay.asked, len(replay.happened.usd)
    return Comparison(
        asked.fleet,
        asked.since.isoformat(),
        asked.until.isoformat(),
        asked.policy,
        asked.seed,
        _figures(replay.happened, 0, steps),
        _figures(replay.replayed, 0, steps),
        replay.happened.unpriced_node_hours,
        tuple(lines(replay, 1)),
        replay.plans,
        replay.troubles,
        replay.notes,
    )


def lines(replay: Replay, every: int) -> Iterator[Line]:
    """One for so many steps."""
    for first in range(0, len(replay.happened.usd), every):
        last = min(first + every, len(replay.happened.usd))
        since = replay.asked.since + timedelta(seconds=float(replay.happened.edges_s[first]))
        found = (_figures(course, first, last) for course in (replay.happened, replay.replayed))
        yield Line(since.isoformat(), *found)


def _figures(course: Course, first: int, last: int) -> Figures:
    part = slice(first, last)
    lengths = np.diff(course.edges_s)[part]
    planned = course.planned_usd_per_hour[part]
    known = ~np.isnan(planned)
    return Figures(
        float(course.usd[part].sum()),
        float(np.average(planned[known], weights=lengths[known])) if known.any() else None,
        float(course.offered[part].sum()),
        float(course.unmet[part].sum()),
        *(int(each[part].sum()) for each in (course.launched, course.moved, course.failed, course.refused)),
    )
