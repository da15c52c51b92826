"""Which of the requests that wait are refused, as no member can begin them in time any more (`Slo.refuses_late`)."""

import numpy as np
from numba.extending import register_jitable

from policies.queue_parts import PARTS, Queue, Waiting
from policies.rows import Rows
from policies.slack import Floats, Member, fastest_s

_AFTER_S = 1e-6
"""How long after its last moment a request is looked at: more than what is lost of a time by rounding."""


@register_jitable
def next_missed(
    members: Rows[Member],
    first: int,
    end: int,
    latency_s: Floats,
    waiting: Rows[Waiting],
    queues: Rows[Queue],
    at: int,
    now_s: float,
) -> int:
    """Find a request that is to be refused: it waits, and none of the members [first, end) that are open could keep it,
    had it nothing else to do; -1 where there is none. `at`: the first part of the queue.

    While no member is open none is late, and who waits then is served however late that is: it waits for a start."""
    if not queues[at].refuses_late:
        return -1
    shut = is_shut(members, first, end)
    for part in range(at, at + PARTS):
        queue = queues[part]
        if shut and not queue.is_shut:
            _excuse(waiting, queue.head)
            _excuse(waiting, queue.late_head)
        queue.is_shut = shut
        row = -1 if shut else _next_missed_of_part(members, first, end, latency_s, waiting, queue, now_s)
        if row >= 0:
            return row
    return -1


@register_jitable
def _next_missed_of_part(
    members: Rows[Member],
    first: int,
    end: int,
    latency_s: Floats,
    waiting: Rows[Waiting],
    queue: Queue,
    now_s: float,
) -> int:
    if now_s <= queue.missed_s:
        return -1
    soonest_s = np.inf
    for head in (queue.head, queue.late_head):
        row = head
        while row >= 0:
            own = waiting[row]
            if not own.is_excused:
                if own.latest_s < now_s:  # by the members of then: who is there now may be faster
                    own.latest_s = own.deadline_s - fastest_s(members, first, end, latency_s, own.tokens)
                if own.latest_s < now_s:
                    return row
                soonest_s = min(soonest_s, own.latest_s)
            row = own.next
    queue.missed_s = soonest_s
    return -1


@register_jitable
def is_shut(members: Rows[Member], first: int, end: int) -> bool:
    """Whether none of the members [first, end) is open."""
    count = 0
    for at in range(first, end):
        count += members[at].is_open
    return count == 0


@register_jitable
def _excuse(waiting: Rows[Waiting], head: int) -> None:
    row = head
    while row >= 0:
        waiting[row].is_excused = True
        row = waiting[row].next


@register_jitable
def next_missed_s(queues: Rows[Queue], at: int) -> float:
    """When `next_missed`, which has just found none, may find one; infinite where none can be."""
    soonest_s = np.inf
    for part in range(at, at + PARTS):
        if queues[part].refuses_late and not queues[part].is_shut:
            soonest_s = min(soonest_s, queues[part].missed_s + _AFTER_S)
    return soonest_s
