"""Calls of a run that have to be placed, and what each place would take for them (DyOrc, section 5.3)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
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

    @cached_property
    def kept(self) -> tuple[tuple[int, ...], ...]:
        """Of each call, those up to it whose results some call behind it takes."""
        last = {taken: call for call, inputs in enumerate(self.inputs) for taken in inputs}
        return tuple(
            tuple(before for before in range(call + 1) if last.get(before, -1) > call) for call in range(self.calls)
        )

    @cached_property
    def alike(self) -> tuple[tuple[int, ...], ...]:
        """Places that no time tells apart, in groups of two and more."""
        same: dict[bytes, list[list[int]]] = {}
        for place, times in enumerate(np.concatenate((self.avail_s, self.comp_s)).T.copy()):
            groups = same.setdefault(times.tobytes(), [])
            for group in groups:
                if self._are_as_far(group[0], place):
                    group.append(place)
                    break
            else:
                groups.append([place])
        return tuple(tuple(group) for groups in same.values() for group in groups if len(group) > 1)

    def _are_as_far(self, one: int, other: int) -> bool:
        swapped = np.arange(self.places)
        swapped[[one, other]] = other, one
        return bool((self.comm_s == self.comm_s[:, swapped][:, :, swapped]).all())


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


def avail_s(place: Place, service: str, load_s: float, max_batch: int) -> float:
    """Return avail(t, d): when a place can begin a call of a service. A batch of that service that waits and has room
    takes it along; else it waits for all that is queued. A service that is not loaded is loaded meanwhile."""
    loaded = (place.loaded_s or {}).get(service, load_s)
    for batch in place.batches:
        if batch.service == service and batch.calls < max_batch and batch.starts_s >= 0:
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
