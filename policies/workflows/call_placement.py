"""Where the calls of a run are computed so that it ends earliest (DyOrc, algorithm 1).

The calls are placed one after the other, in one topological order. A partial schedule is what matters for those to
come: where the results lie that they take, and since when; the latest end of calls that nobody takes (which the text of
the paper forgets); and, where a place is held by the run's own calls, until when each is. Of schedules with their
results in the same places, those go that another beats in everything.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from policies.workflows.call_request import CallRequest, Floats, finish_s

MOST_STATES = 256
"""Partial schedules that are kept, those that may end earliest: fan-outs have places to the power of their width."""


_COMPARED = 4
"""Times as many partial schedules are compared with each other as are kept."""
_PASSES = 64
_LARGEST = 1 << 62


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


@dataclass(frozen=True, slots=True)
class _States:
    """Partial schedules, a row each."""

    places: NDArray[np.int64]
    """(states, calls so far)"""
    done_s: Floats
    """(states, calls so far)"""
    ended_s: Floats
    """(states,) latest end of calls whose results nobody takes any more."""
    free_s: Floats
    """(states, places) until when the run's own calls hold a place; without columns where they do not."""

    def of(self, rows: NDArray[np.int64]) -> "_States":
        return _States(self.places[rows], self.done_s[rows], self.ended_s[rows], self.free_s[rows])


def placed(request: CallRequest, *, occupied: bool = True, most_states: int = MOST_STATES) -> CallPlacement:
    """Place the calls of a request. `occupied`: a place does one batch at a time of the run's own calls too; without
    it, eq. 1 and 2 hold as they are printed. `most_states`: partial schedules that are kept at the most."""
    width = request.places if occupied else 0
    states = _States(
        np.zeros((1, 0), dtype=np.int64), np.zeros((1, 0)), np.zeros(1), np.zeros((1, width))
    )  # fmt: skip
    dropped = 0
    for call in range(request.calls):
        states, early = _earliest(_extended(request, call, states), _COMPARED * most_states)
        states, late = _earliest(_best(request, call, states), most_states)
        dropped += early + late
    if not request.calls:
        return CallPlacement((), ())
    chosen = states.places[int(states.done_s.max(axis=1).argmin())].tolist()
    return CallPlacement(tuple(chosen), tuple(finish_s(request, chosen, occupied=occupied)), dropped)


def _earliest(states: _States, most: int) -> tuple[_States, int]:
    """Return the partial schedules that may end earliest, `most` of them, and how many others there are."""
    surplus = len(states.ended_s) - most
    if surplus <= 0:
        return states, 0
    latest_s = np.maximum(states.ended_s, states.done_s.max(axis=1))
    return states.of(np.argpartition(latest_s, most)[:most]), surplus


def _extended(request: CallRequest, call: int, states: _States) -> _States:
    """Put a call on every place, behind every partial schedule."""
    ready_s = np.tile(request.avail_s[call], (len(states.ended_s), 1))
    for taken in request.inputs[call]:
        came_s = states.done_s[:, taken, None] + request.comm_s[taken][states.places[:, taken]]
        np.maximum(ready_s, came_s, out=ready_s)
    if states.free_s.shape[1]:
        np.maximum(ready_s, states.free_s, out=ready_s)
    done_s = ready_s + request.comp_s[call]
    rows, places = np.nonzero(_differs(request, call, states))
    before = states.of(rows)
    done = done_s[rows, places]
    free_s = before.free_s
    if free_s.shape[1]:
        free_s[np.arange(len(rows)), places] = done  # rows are copies
    return _States(
        np.concatenate((before.places, places[:, None]), axis=1),
        np.concatenate((before.done_s, done[:, None]), axis=1),
        before.ended_s,
        free_s,
    )


def _differs(request: CallRequest, call: int, states: _States) -> NDArray[np.bool_]:
    """Tell which places to try, (states, places): of those that are alike, and that the schedule does not use, one."""
    tried = np.ones((len(states.ended_s), request.places), dtype=bool)
    if not request.alike:
        return tried
    used = states.free_s > 0 if states.free_s.shape[1] else np.zeros_like(tried)
    for held in request.kept[call - 1] if call else ():
        used[np.arange(len(used)), states.places[:, held]] = True
    for group in request.alike:
        unused = ~used[:, group]
        tried[:, group] = ~unused | (np.cumsum(unused, axis=1) == 1)
    return tried


def _best(request: CallRequest, call: int, states: _States) -> _States:
    """Drop schedules that another beats."""
    kept = list(request.kept[call])
    gone = [each for each in range(call + 1) if each not in kept]
    ended_s = np.maximum(states.ended_s, states.done_s[:, gone].max(axis=1, initial=0.0))
    states = _States(states.places, states.done_s, ended_s, states.free_s)
    _forget_past(request, call, states)
    where = _where(request, kept, states)
    times = np.concatenate((states.done_s[:, kept], ended_s[:, None], states.free_s), axis=1)
    order = np.lexsort((times.sum(axis=1), where))  # who beats another in everything has the lesser sum
    where, times = where[order], times[order]
    starts = np.flatnonzero(np.concatenate(([True], where[1:] != where[:-1])))
    if times.shape[1] - (times == times[0]).all(axis=0).sum() <= 1:  # one time differs: the first of each is best
        return states.of(order[starts])
    ends = [*starts[1:], len(order)]
    found = [first + _unbeaten(times[first:last]) for first, last in zip(starts, ends, strict=True)]
    return states.of(order[np.concatenate(found)])


def _where(request: CallRequest, kept: list[int], states: _States) -> NDArray[np.int64]:
    """Number the places of all results that are taken still: equal numbers, equal places."""
    if request.places ** len(kept) < _LARGEST:
        where = np.zeros(len(states.ended_s), dtype=np.int64)
        for each in kept:
            where = where * request.places + states.places[:, each]
        return where
    return np.unique(states.places[:, kept], axis=0, return_inverse=True)[1].reshape(-1)


def _forget_past(request: CallRequest, call: int, states: _States) -> None:
    """Set to 0 until when a place is held where no call to come could begin by then: nothing tells these apart."""
    behind = range(call + 1, request.calls)
    if not states.free_s.shape[1] or not behind:
        return
    kept = request.kept[call]
    # Whoever takes a result begins after it; a call that takes none may begin at once.
    begins_s = states.done_s[:, kept].min(axis=1) if all(request.inputs[each] for each in behind) else 0.0
    least_s = np.maximum(np.reshape(begins_s, (-1, 1)), request.avail_s[call + 1 :].min(axis=0))
    states.free_s[states.free_s <= least_s] = 0.0


def _unbeaten(times: Floats) -> NDArray[np.int64]:
    """Return the rows that no other is below in all columns, of equal ones the first. `times`: by the sum of each.
    Where they are many, some that are beaten stay: that costs time, and nothing else."""
    left = np.arange(len(times))
    found: list[int] = []
    while len(left) > 1 and len(found) < _PASSES:
        found.append(int(left[0]))
        left = left[(times[left] < times[left[0]]).any(axis=1)]
    return np.concatenate((np.array(found, dtype=np.int64), left))
