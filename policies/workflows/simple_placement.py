"""Placements to compare with (DyOrc, section 8.3): each call by itself, at once or in turn."""

from collections import Counter

import numpy as np

from policies.workflows.call_placement import CallPlacement
from policies.workflows.call_request import CallRequest, finish_s


def greedy(request: CallRequest) -> CallPlacement:
    """Put each call where it is done first, by what was placed before it; of equal places on the first."""
    chosen: list[int] = []
    for call in range(request.calls):
        part = CallRequest(
            request.inputs[: call + 1], request.avail_s[: call + 1], request.comp_s[: call + 1], request.comm_s
        )
        ends_s = [finish_s(part, [*chosen, place], occupied=True)[-1] for place in range(request.places)]
        chosen.append(ends_s.index(min(ends_s)))
    return CallPlacement(tuple(chosen), tuple(finish_s(request, chosen, occupied=True)))


def round_robin(request: CallRequest, turns: Counter[tuple[int, ...]]) -> CallPlacement:
    """Put calls on places in turn, each on one of those where it can begin at all. `turns`: such places → calls that
    were put on them, which is counted on."""
    chosen = []
    for call in range(request.calls):
        possible = tuple(np.flatnonzero(np.isfinite(request.avail_s[call])).tolist())
        chosen.append(possible[turns[possible] % len(possible)])
        turns[possible] += 1
    return CallPlacement(tuple(chosen), tuple(finish_s(request, chosen, occupied=True)))
