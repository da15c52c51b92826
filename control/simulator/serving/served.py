"""What became of each request."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Outcome(IntEnum):
    UNFINISHED = 0
    """Not over at the end of the simulation."""
    SERVED = 1
    """Every token was made."""
    REFUSED = 2
    """By admission, because nothing serves its app, or because no instance could ever hold it."""
    LOST = 3
    """It was taken and failed: its time-out, too many lost instances, or none to go on at."""


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
    prefill_instance: NDArray[np.int32]
    """Index in `FleetTimeline.instances` of who computed its prompt; -1: nobody."""
    decode_instance: NDArray[np.int32]
    """Of who made its further tokens: the same for a request served whole. -1: nobody was chosen."""
    queued_s: Floats
    """From its arrival to the start of its first step."""
    first_token_s: Floats
    """When its client had the first token."""
    accepted_s: Floats
    """When the decode leg had room and its KV cache began to move; NaN for requests served whole."""
    handed_s: Floats
    """When the decode leg had all of it."""
    finish_s: Floats
    """When its client had the last token."""
    made_tokens: NDArray[np.int32]
    """Output tokens that its client got."""
    restarts: NDArray[np.int32]
    """Times that it lost its instance and went on at another."""
    preemptions: NDArray[np.int32]
    """Times that it gave up its KV cache to an older request."""
    use: Use
