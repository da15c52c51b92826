"""Where the calls of a run are computed so that it ends earliest (DyOrc, algorithm 1).

The calls are placed one after the other, in one topological order. A partial schedule is what matters for those to
come: where the results lie that they take, and since when; the latest end of calls that nobody takes (which the text of
the paper forgets); and, where a place is held by the run's own calls, until when each is. Of schedules with their
results in the same places, those go that another beats in everything.
"""

from dataclasses import dataclass

import numpy as np

from policies.workflows.call_request import CallRequest
from policies.workflows.placement_search import search

MOST_STATES = 256
"""Partial schedules that are kept, those that may end earliest: fan-outs have places to the power of their width."""


@dataclass(frozen=True, slots=True)
class CallPlacement:
    places: tuple[int, ...]
    """Of each call."""
    finish_s: tuple[float, ...]
    dropped: int = 0
    """Partial schedules that were given up for their number; 0: no placement is better."""

    @property
    def latency_s(self) -> float:
        return max(self.finish_s, default=0.0)


def placed(request: CallRequest, *, occupied: bool = True, most_states: int = MOST_STATES) -> CallPlacement:
    """Place the calls of a request. `occupied`: a place does one batch at a time of the run's own calls too; without
    it, eq. 1 and 2 hold as they are printed. `most_states`: partial schedules that are kept at the most. Raises
    ValueError for a request whose arrays do not fit each other, or have no numbers: compiled code would read beyond
    them."""
    if not request.calls:
        return CallPlacement((), ())
    _check(request)
    takes = np.zeros((request.calls, request.calls), dtype=np.bool_)
    for call, inputs in enumerate(request.inputs):
        takes[call, list(inputs)] = True
    times = (request.avail_s, request.comp_s, request.comm_s)
    # Arrays of another layout would have the search compiled again.
    avail_s, comp_s, comm_s = (np.require(each, np.float64, ["C", "A", "W"]) for each in times)
    place, done_s, dropped = search(takes, avail_s, comp_s, comm_s, occupied, most_states)
    return CallPlacement(tuple(place.tolist()), tuple(done_s.tolist()), dropped)


def compile_placement() -> None:
    """Compile the search, or load it, so that no run waits for it; takes seconds where nothing is on disk."""
    placed(CallRequest(((),), np.zeros((1, 1)), np.zeros((1, 1)), np.zeros((1, 1, 1))))


def _check(request: CallRequest) -> None:
    """Raise ValueError for a request whose arrays do not fit each other or whose calls come before their inputs."""
    for call, inputs in enumerate(request.inputs):
        if any(not 0 <= taken < call for taken in inputs):
            raise ValueError(f"call {call} takes {inputs}: number calls so that each comes behind its inputs")
    calls, places = request.calls, request.places
    times = ((request.avail_s, 2), (request.comp_s, 2), (request.comm_s, 3))
    for each, axes in times:
        if each.shape != (calls, places, places)[:axes] or not places or np.isnan(each).any():
            raise ValueError(f"times of {calls} calls on {places} places have shape {each.shape}, or are no numbers")
