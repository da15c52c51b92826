"""The search of Algorithm 1, compiled: partial schedules are rows of arrays."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numba.extending import register_jitable
from numpy.typing import NDArray

from policies.machine_code import machine_code

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
F = TypeVar("F", bound=Callable[..., Any])

_COMPARED = 4
"""Times as many partial schedules are compared with each other as are kept."""
_PASSES = 64
"""Schedules that one is compared with. Where more are unbeaten, some that are beaten stay: that costs time, and nothing
else."""
_SPREAD = 2654435761
"""A prime by which hashes are spread (Knuth)."""


class Problem(NamedTuple):
    """The arrays of a `CallRequest`."""

    takes: Bools
    """(calls, calls) of each call, whose results it takes"""
    avail_s: Floats
    comp_s: Floats
    comm_s: Floats


class Schedules(NamedTuple):
    """Partial schedules, a row each."""

    place: Ints
    """(schedules, calls) of calls that are placed"""
    done_s: Floats
    """(schedules, calls)"""
    is_held: Bools
    """(schedules, calls) until the call is done, no other can begin on its place; of calls of one place the last."""
    ended_s: Floats
    """(schedules,) latest end of calls whose results nobody takes any more"""
    latest_s: Floats
    """(schedules,) latest end"""


class Tried(NamedTuple):
    """A call behind a schedule, on a place."""

    row: Ints
    place: Ints
    done_s: Floats
    latest_s: Floats


def _entry(function: F) -> F:
    return machine_code(function, [Path(__file__)], nogil=False)


@_entry
def search(
    takes: Bools, avail_s: Floats, comp_s: Floats, comm_s: Floats, occupied: bool, most: int
) -> tuple[Ints, Floats, int]:
    """Place the calls of a request one after the other, in their order; there is one at least. The arrays are those of
    a `Problem`: numba knows the type of an array sooner than that of a tuple. `most`: partial schedules that are kept.
    Return the place of each call, when each is done, and how many partial schedules were given up for their number."""
    problem = Problem(takes, avail_s, comp_s, comm_s)
    calls = len(problem.takes)
    last_taker, alike = _last_taker(problem.takes), _first_alike(problem)
    schedules = Schedules(
        np.zeros((1, calls), np.int64), np.zeros((1, calls)), np.zeros((1, calls), np.bool_), np.zeros(1), np.zeros(1)
    )
    alive = np.zeros(1, np.int64)
    dropped = 0
    for call in range(calls - 1):
        tried = _tried(problem, last_taker, alike, call, schedules, alive)
        early = _least(tried.latest_s, _COMPARED * most)
        schedules = _extended(last_taker, call, schedules, tried, early, occupied)
        _forget_past(problem, last_taker, call, schedules)
        unbeaten = _unbeaten(last_taker, call, schedules)
        kept = _least(schedules.latest_s[unbeaten], most)
        alive = unbeaten[kept]
        dropped += len(tried.row) - len(early) + len(unbeaten) - len(kept)
    tried = _tried(problem, last_taker, alike, calls - 1, schedules, alive)
    best = np.argmin(tried.latest_s)
    place, done_s = schedules.place[tried.row[best]].copy(), schedules.done_s[tried.row[best]].copy()
    place[calls - 1], done_s[calls - 1] = tried.place[best], tried.done_s[best]
    return place, done_s, dropped


@register_jitable
def _last_taker(takes: Bools) -> Ints:
    """Return, of each call, the last that takes its result; -1: nobody does."""
    last = np.full(len(takes), -1, np.int64)
    for call in range(len(takes)):
        for taken in range(call):
            if takes[call, taken]:
                last[taken] = call
    return last


@register_jitable
def _first_alike(problem: Problem) -> Ints:
    """Return, of each place, the first that no time tells it apart from; itself where none before it is so."""
    places = problem.avail_s.shape[1]
    first = np.arange(places, dtype=np.int64)
    for place in range(places):
        for other in range(place):
            # Who is like one of a group is like all of it.
            if first[other] == other and _are_alike(problem, other, place):
                first[place] = other
                break
    return first


@register_jitable
def _are_alike(problem: Problem, one: int, other: int) -> bool:
    """Tell whether all times stay as they are when the two places are swapped."""
    avail_s, comp_s = problem.avail_s, problem.comp_s
    for call in range(len(avail_s)):
        if avail_s[call, one] != avail_s[call, other] or comp_s[call, one] != comp_s[call, other]:
            return False
    for call in range(len(avail_s)):
        comm_s = problem.comm_s[call]
        if comm_s[one, other] != comm_s[other, one] or comm_s[one, one] != comm_s[other, other]:
            return False
        for third in range(avail_s.shape[1]):
            if third in (one, other):
                continue
            if comm_s[one, third] != comm_s[other, third] or comm_s[third, one] != comm_s[third, other]:
                return False
    return True


@register_jitable
def _tried(problem: Problem, last_taker: Ints, alike: Ints, call: int, schedules: Schedules, alive: Ints) -> Tried:
    """Put a call behind every schedule that is alive on every place, by eq. 1 and 2; of places that are alike, and that
    the schedule does not use, on the first."""
    place, done_s, is_held = schedules.place, schedules.done_s, schedules.is_held
    places = len(alike)
    most = len(alive) * places
    rows, tried = np.empty(most, np.int64), np.empty(most, np.int64)
    ends_s, latest_s = np.empty(most), np.empty(most)
    free_s = np.zeros(places)
    is_used, is_seen = np.empty(places, np.bool_), np.empty(places, np.bool_)
    count = 0
    for row in alive:
        free_s[:] = 0.0
        is_used[:] = False
        is_seen[:] = False
        for before in range(call):
            if is_held[row, before]:
                free_s[place[row, before]] = done_s[row, before]
            if is_held[row, before] or last_taker[before] >= call:
                is_used[place[row, before]] = True
        for at in range(places):
            if not is_used[at]:
                if is_seen[alike[at]]:
                    continue
                is_seen[alike[at]] = True
            begins_s = max(problem.avail_s[call, at], free_s[at])
            for taken in range(call):
                if problem.takes[call, taken]:
                    begins_s = max(begins_s, done_s[row, taken] + problem.comm_s[taken, place[row, taken], at])
            rows[count], tried[count], ends_s[count] = row, at, begins_s + problem.comp_s[call, at]
            latest_s[count] = max(schedules.latest_s[row], ends_s[count])
            count += 1
    return Tried(rows[:count], tried[:count], ends_s[:count], latest_s[:count])


@register_jitable
def _least(times_s: Floats, most: int) -> Ints:
    """Return the rows of the least times, `most` of them; of equal ones the first."""
    if len(times_s) <= most:
        return np.arange(len(times_s), dtype=np.int64)
    limit_s = np.partition(times_s, most - 1)[most - 1]
    equal = most
    for time_s in times_s:
        if time_s < limit_s:
            equal -= 1
    found, count = np.empty(most, np.int64), 0
    for row in range(len(times_s)):
        if times_s[row] == limit_s:
            equal -= 1
        if times_s[row] < limit_s or (times_s[row] == limit_s and equal >= 0):
            found[count] = row
            count += 1
    return found


@register_jitable
def _extended(
    last_taker: Ints, call: int, schedules: Schedules, tried: Tried, chosen: Ints, occupied: bool
) -> Schedules:
    """Return the schedules with the call where it was chosen to be, `chosen` being rows of what was tried."""
    rows = tried.row[chosen]
    place, done_s, is_held = schedules.place[rows], schedules.done_s[rows], schedules.is_held[rows]
    ended_s, latest_s = schedules.ended_s[rows], tried.latest_s[chosen]
    for row in range(len(rows)):
        at = tried.place[chosen[row]]
        place[row, call], done_s[row, call] = at, tried.done_s[chosen[row]]
        for before in range(call):
            if place[row, before] == at:
                is_held[row, before] = False
        is_held[row, call] = occupied
        for before in range(call + 1):
            if last_taker[before] <= call:
                ended_s[row] = max(ended_s[row], done_s[row, before])
    return Schedules(place, done_s, is_held, ended_s, latest_s)


@register_jitable
def _forget_past(problem: Problem, last_taker: Ints, call: int, schedules: Schedules) -> None:
    """Hold no place any more where no call to come could begin before it is free: nothing tells these apart."""
    place, done_s, is_held = schedules.place, schedules.done_s, schedules.is_held
    calls, places = problem.avail_s.shape
    all_take = True  # who takes a result begins after it; a call that takes none may begin at once
    for behind in range(call + 1, calls):
        all_take = all_take and problem.takes[behind].any()
    least_s = np.full(places, np.inf)
    for behind in range(call + 1, calls):
        for at in range(places):
            least_s[at] = min(least_s[at], problem.avail_s[behind, at])
    for row in range(len(place)):
        begins_s = np.inf if all_take else 0.0
        for before in range(call + 1):
            if last_taker[before] > call:
                begins_s = min(begins_s, done_s[row, before])
        for before in range(call + 1):
            if done_s[row, before] <= max(begins_s, least_s[place[row, before]]):
                is_held[row, before] = False


@register_jitable
def _unbeaten(last_taker: Ints, call: int, schedules: Schedules) -> Ints:
    """Return the schedules that no other beats: one that has the results that are still taken in the same places, and
    is later in nothing."""
    rows = len(schedules.place)
    size = 1
    while size < 2 * rows:
        size *= 2
    first = np.full(size, -1, np.int64)  # by hash of their places: a row; `behind` it those in the same places
    behind, is_beaten = np.full(rows, -1, np.int64), np.zeros(rows, np.bool_)
    for row in range(rows):
        slot = _slot(last_taker, call, schedules.place, row, size)
        while first[slot] >= 0 and not _are_together(last_taker, call, schedules.place, first[slot], row):
            slot = (slot + 1) % size
        other = first[slot]
        for _ in range(_PASSES):
            if other < 0 or is_beaten[row]:
                break
            if not is_beaten[other]:
                if _beats(last_taker, call, schedules, other, row):
                    is_beaten[row] = True
                elif _beats(last_taker, call, schedules, row, other):
                    is_beaten[other] = True
            other = behind[other]
        if not is_beaten[row]:
            other = first[slot]
            while other >= 0 and is_beaten[other]:
                other = behind[other]
            behind[row] = other
            first[slot] = row
    return np.flatnonzero(~is_beaten)


@register_jitable
def _slot(last_taker: Ints, call: int, place: Ints, row: int, size: int) -> int:
    mixed = 0
    for before in range(call + 1):
        if last_taker[before] > call:
            mixed = (mixed * _SPREAD + place[row, before] + 1) & 0x7FFFFFFF
    return (mixed * _SPREAD >> 16) % size


@register_jitable
def _are_together(last_taker: Ints, call: int, place: Ints, one: int, other: int) -> bool:
    """Tell whether all results that are still taken are in the same places."""
    for before in range(call + 1):
        if last_taker[before] > call and place[one, before] != place[other, before]:
            return False
    return True


@register_jitable
def _beats(last_taker: Ints, call: int, schedules: Schedules, one: int, other: int) -> bool:
    """Tell whether a schedule is later than another in nothing: ends, results that are still taken, places."""
    done_s, is_held = schedules.done_s, schedules.is_held
    if schedules.ended_s[one] > schedules.ended_s[other]:
        return False
    for before in range(call + 1):
        if last_taker[before] > call and done_s[one, before] > done_s[other, before]:
            return False
    for before in range(call + 1):
        if is_held[one, before] and not _is_held_as_long(schedules, call, one, before, other):
            return False
    return True


@register_jitable
def _is_held_as_long(schedules: Schedules, call: int, one: int, before: int, other: int) -> bool:
    """Tell whether another schedule holds the place of a call at least until this one is done."""
    place, done_s = schedules.place, schedules.done_s
    for each in range(call + 1):
        if schedules.is_held[other, each] and place[other, each] == place[one, before]:
            return bool(done_s[other, each] >= done_s[one, before])
    return False
