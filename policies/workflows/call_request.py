"""Calls of a run that have to be placed, and what each place would take for them (DyOrc, section 5.3)."""

from collections.abc import Sequence
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
