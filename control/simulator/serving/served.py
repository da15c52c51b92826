"""What became of each request."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Outcome(IntEnum):
    """The codes are those of `kernel.records`."""

    UNFINISHED = 0
    """Not over at the end of the simulation."""
    SERVED = 1
    """Every token was made."""
    REFUSED = 2
    """By admission, because nothing serves its app, or because no instance could ever hold it."""
    LOST = 3
    """The request was taken and failed: its time-out, too many lost instances, or none to go on at."""
    REFUSED_LATE = 4
    """It was taken, and no instance could begin it in time any more (`Slo.refuses_late`)."""


@dataclass(frozen=True, slots=True, eq=False)
class Use:
    """How busy instances were."""

    interval_s: float
    first: NDArray[np.int64]
    """(instances,) the interval in which each was ready."""
    busy_s: tuple[Floats, ...]
    """By instance: in each interval from then on, seconds that its nodes computed, added up over them. A step counts
    where it begins."""


@dataclass(frozen=True, slots=True, eq=False)
class Served:
    """Arrays (n,), one entry a request, in the order of `Requests`. Times are seconds since the start; NaN where it did
    not come to that. Of a request that went on elsewhere, instances are the last ones."""

    outcome: NDArray[np.int8]
    """`Outcome`"""
    places: NDArray[np.int32]
    """(n, most legs) index in `FleetTimeline.instances` of who served each leg; -1: nobody was chosen, or its route has
    no such leg."""
    queued_s: Floats
    """Time from its arrival to the start of its first step."""
    first_token_s: Floats
    """When its client had the first token."""
    accepted_s: Floats
    """When the leg that takes its KV cache over had room, and it began to move; NaN where none moved."""
    handed_s: Floats
    """When the last input of a leg had arrived; NaN for requests of one leg."""
    finish_s: Floats
    """When its client had the last token."""
    made_tokens: NDArray[np.int32]
    """Output tokens that its client got."""
    restarts: NDArray[np.int32]
    """Times that it lost its instance and went on at another."""
    preemptions: NDArray[np.int32]
    """Times that it gave up its KV cache to an older request."""
    use: Use

    @property
    def first_instance(self) -> NDArray[np.int32]:
        """Who served its first leg."""
        return self.places[:, 0]

    @property
    def last_instance(self) -> NDArray[np.int32]:
        """Who served its last leg: the same for a request of one leg."""
        legs = (self.places >= 0).sum(axis=1)
        return np.take_along_axis(self.places, np.maximum(legs - 1, 0)[:, None], axis=1)[:, 0]
