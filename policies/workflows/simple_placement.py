"""Placements to compare with (DyOrc, section 8.3): each call by itself, at once or in turn."""

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


def round_robin(request: CallRequest, first: int = 0) -> CallPlacement:
    """Put calls on places in turn. `first`: the place of the first; the next request goes on behind the last."""
    chosen = [(first + call) % request.places for call in range(request.calls)]
    return CallPlacement(tuple(chosen), tuple(finish_s(request, chosen, occupied=True)))
