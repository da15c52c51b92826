"""The queue of a model under `policies.slack`: a part for each priority, lists through rows of an array.

The functions work on records in arrays, as those of `slack`, which says what the order is.
"""

import numpy as np
from numba.extending import register_jitable

from policies.priority import Priority
from policies.rows import Rows

PARTS = len(Priority)
"""Parts of a queue: rows of `Queue` behind each other, in the order of `Priority`."""


class Waiting:
    """A request in the queue."""

    part: int
    """Its row of `Queue`."""
    tokens: float
    """Of its prompt, and of the answer that is made already."""
    answer: float
    """Tokens that are expected behind those: as many as a mean answer has, or as the request allows."""
    deadline_s: float
    latest_s: float
    """When the fastest member has to begin at the latest."""
    aside_s: float
    """When it has waited for as much of its slack as it may ahead of others: `slack.aside_s`."""
    order_s: float
    """Its deadline, and later for whoever has more waiting than others: the queue is in this order."""
    is_late: bool
    is_excused: bool
    """It is served however late: its client has some of its answer, or it has waited for any member to be there."""
    previous: int
    next: int


class Queue:
    """A part of a model's queue: ends of two lists through rows of `Waiting`, -1 where one is empty. They are of those
    that can be kept, and of those that are late or nearly so, both by `order_s`."""

    head: int
    tail: int
    late_head: int
    late_tail: int
    refuses_late: bool
    """Whether `next_missed` finds any."""
    is_shut: bool
    """No member was open when that looked last."""
    missed_s: float
    """None of those that wait, and are not excused, has to begin before."""
    passed: int
    """Requests of parts above that were bound since the last of this one, while one waited here."""


EMPTY = {"head": -1, "tail": -1, "late_head": -1, "late_tail": -1, "missed_s": np.inf}
"""Fields of a `Queue` in which nothing waits that are not 0."""


@register_jitable
def insert(waiting: Rows[Waiting], queue: Queue, row: int) -> None:
    """Put a request into the queue by its `order_s`, behind its equals."""
    waiting[row].is_late = False
    if not waiting[row].is_excused:
        queue.missed_s = min(queue.missed_s, waiting[row].latest_s)
    _insert(waiting, queue, row, queue.head, queue.tail)


@register_jitable
def _insert(waiting: Rows[Waiting], queue: Queue, row: int, head: int, tail: int) -> None:
    """Put a row into the list with these ends."""
    before, is_late = tail, waiting[row].is_late
    while before >= 0 and waiting[before].order_s > waiting[row].order_s:
        before = waiting[before].previous
    after = head if before < 0 else waiting[before].next
    waiting[row].previous = before
    waiting[row].next = after
    if before >= 0:
        waiting[before].next = row
    elif is_late:
        queue.late_head = row
    else:
        queue.head = row
    if after >= 0:
        waiting[after].previous = row
    elif is_late:
        queue.late_tail = row
    else:
        queue.tail = row


@register_jitable
def remove(waiting: Rows[Waiting], queues: Rows[Queue], row: int) -> None:
    """Take a request out of whichever list it is in."""
    _remove(waiting, queues[waiting[row].part], row)


@register_jitable
def _remove(waiting: Rows[Waiting], queue: Queue, row: int) -> None:
    before, after, is_late = waiting[row].previous, waiting[row].next, waiting[row].is_late
    if before >= 0:
        waiting[before].next = after
    elif is_late:
        queue.late_head = after
    else:
        queue.head = after
    if after >= 0:
        waiting[after].previous = before
    elif is_late:
        queue.late_tail = before
    else:
        queue.tail = before


@register_jitable
def set_late_aside(waiting: Rows[Waiting], queue: Queue, row: int) -> None:
    """Move a request that no member can keep any more, or hardly, to the late list."""
    _remove(waiting, queue, row)
    waiting[row].is_late = True
    _insert(waiting, queue, row, queue.late_head, queue.late_tail)


@register_jitable
def holds_any(queue: Queue) -> bool:
    return queue.head >= 0 or queue.late_head >= 0


@register_jitable
def first_waiting(queues: Rows[Queue], at: int) -> int:
    """Row of a request of the highest priority that waits, -1 where none does."""
    for part in range(at, at + PARTS):
        if queues[part].head >= 0:
            return queues[part].head
        if queues[part].late_head >= 0:
            return queues[part].late_head
    return -1
