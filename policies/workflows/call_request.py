"""Calls of a run that have to be placed, and what each place would take for them (DyOrc, section 5.3)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class CallRequest:
    """Times are seconds from now. Calls are numbered in an order in which each comes behind its inputs."""

    inputs: tuple[tuple[int, ...], ...]
    """Of each call, the calls whose results it takes."""
    avail_s: Floats
    """(calls, places) when a place can begin a call: what it has before is done, and the service is loaded."""
    comp_s: Floats
    """(calls, places) time of the batch that has the call in it."""
    comm_s: Floats
    """(calls, places, places) time to bring the result of a call from one place to another; 0 on the diagonal."""

    @property
    def calls(self) -> int:
        return len(self.inputs)

    @property
    def places(self) -> int:
        return int(self.avail_s.shape[1])


@dataclass(frozen=True, slots=True)
class QueuedBatch:
    """A batch that a place has not ended."""

    service: str
    calls: int
    starts_s: float
    """Not before this; below zero: it is being computed, and takes no more calls."""
    ends_s: float


@dataclass(frozen=True, slots=True)
class Place:
    """A device that services share, one batch at a time."""

    batches: tuple[QueuedBatch, ...] = ()
    """In their order."""
    loaded_s: Mapping[str, float] | None = None
    """Service → when it is loaded, of those that are, or are being loaded."""


def open_batch(place: Place, service: str, max_batch: int) -> QueuedBatch | None:
    """Return the batch of a service that waits on a place and has room for one call more; None: there is none."""
    for batch in place.batches:
        if batch.service == service and batch.calls < max_batch and batch.starts_s >= 0:
            return batch
    return None


def avail_s(place: Place, service: str, load_s: float, max_batch: int) -> float:
    """Return avail(t, d): when a place can begin a call of a service. A batch of that service that waits and has room
    takes it along; else it waits for all that is queued. A service that is not loaded is loaded meanwhile."""
    loaded = (place.loaded_s or {}).get(service, load_s)
    batch = open_batch(place, service, max_batch)
    if batch is not None:
        return max(batch.starts_s, loaded)
    return max(max((batch.ends_s for batch in place.batches), default=0.0), loaded)


def finish_s(request: CallRequest, chosen: Sequence[int], *, occupied: bool) -> list[float]:
    """Return when each call is done on the places that were chosen, by eq. 1 and 2. `occupied`: a place that has one of
    these calls does no other meanwhile."""
    done: list[float] = []
    free_s = dict.fromkeys(chosen, 0.0)
    for call, place in enumerate(chosen):
        ready_s = max(
            (done[taken] + request.comm_s[taken, chosen[taken], place] for taken in request.inputs[call]), default=0.0
        )
        begins_s = max(request.avail_s[call, place], ready_s, free_s[place] if occupied else 0.0)
        free_s[place] = begins_s + request.comp_s[call, place]
        done.append(float(free_s[place]))
    return done
