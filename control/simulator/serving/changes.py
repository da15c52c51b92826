"""What changes of a fleet while requests come, in order of time."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from math import isfinite

from control.simulator.serving.fleet_timeline import FleetTimeline


class What(IntEnum):
    """Kinds of change, in the order in which they take effect at one time."""

    DEAD = 0
    """An instance computes no more; nobody knows yet."""
    TABLE = 1
    READY = 2
    DRAINED = 3
    LOST = 4
    """Gateways know that it is dead."""


@dataclass(frozen=True, slots=True, order=True)
class Change:
    at_s: float
    what: What
    number: int
    """Number of the instance or table."""


def changes(fleet: FleetTimeline, lost_after_s: float) -> tuple[Change, ...]:
    """Changes before the end, in order."""
    return tuple(sorted(change for change in _all(fleet, lost_after_s) if change.at_s < fleet.length_s))


def _all(fleet: FleetTimeline, lost_after_s: float) -> Iterator[Change]:
    for number, (at_s, _) in enumerate(fleet.tables):
        yield Change(max(at_s, 0.0), What.TABLE, number)
    for number, life in enumerate(fleet.instances):
        yield Change(life.ready_s, What.READY, number)
        if isfinite(life.drain_s):
            yield Change(life.drain_s, What.DRAINED, number)
        if isfinite(life.gone_s):
            yield Change(life.gone_s, What.DEAD, number)
            yield Change(life.gone_s + lost_after_s, What.LOST, number)
