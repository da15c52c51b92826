"""Who waits at an instance, who is in a group, and all that an instance holds: lists through the rows of sequences."""

from control.simulator.serving.kernel.columns import (
    G_HEAD,
    G_TAIL,
    I_ALL,
    I_ALL_HEAD,
    I_ALL_TAIL,
    I_WAIT_HEAD,
    I_WAIT_TAIL,
    S_ALL_NEXT,
    S_ALL_PREVIOUS,
    S_ARRIVAL,
    S_NEXT,
    S_PREVIOUS,
)
from control.simulator.serving.kernel.compiled import compiled
from control.simulator.serving.kernel.world import Ints


@compiled
def insert(sequences: Ints, ends: Ints, head: int, tail: int, row: int) -> None:
    """Into the list whose ends are at `head` and `tail` of `ends`, by arrival: mostly last, or else first."""
    arrival = sequences[row, S_ARRIVAL]
    before = ends[tail]
    first = ends[head]
    if first >= 0 and sequences[first, S_ARRIVAL] > arrival:
        before = -1
    while before >= 0 and sequences[before, S_ARRIVAL] > arrival:
        before = sequences[before, S_PREVIOUS]
    after = first if before < 0 else sequences[before, S_NEXT]
    sequences[row, S_PREVIOUS] = before
    sequences[row, S_NEXT] = after
    if before < 0:
        ends[head] = row
    else:
        sequences[before, S_NEXT] = row
    if after < 0:
        ends[tail] = row
    else:
        sequences[after, S_PREVIOUS] = row


@compiled
def append(rows: Ints, ends: Ints, head: int, tail: int, to_previous: int, to_next: int, row: int) -> None:
    """To the list through the columns `to_previous` and `to_next` of `rows`."""
    last = ends[tail]
    rows[row, to_previous] = last
    rows[row, to_next] = -1
    if last < 0:
        ends[head] = row
    else:
        rows[last, to_next] = row
    ends[tail] = row


@compiled
def unlink(rows: Ints, ends: Ints, head: int, tail: int, to_previous: int, to_next: int, row: int) -> None:
    """From such a list; its own links stay as they were."""
    before, after = rows[row, to_previous], rows[row, to_next]
    if before < 0:
        ends[head] = after
    else:
        rows[before, to_next] = after
    if after < 0:
        ends[tail] = before
    else:
        rows[after, to_previous] = before


@compiled
def wait(sequences: Ints, instance: Ints, row: int) -> None:
    insert(sequences, instance, I_WAIT_HEAD, I_WAIT_TAIL, row)


@compiled
def leave_queue(sequences: Ints, instance: Ints, row: int) -> None:
    unlink(sequences, instance, I_WAIT_HEAD, I_WAIT_TAIL, S_PREVIOUS, S_NEXT, row)


@compiled
def enter_group(sequences: Ints, group: Ints, row: int) -> None:
    insert(sequences, group, G_HEAD, G_TAIL, row)


@compiled
def leave_group(sequences: Ints, group: Ints, row: int) -> None:
    unlink(sequences, group, G_HEAD, G_TAIL, S_PREVIOUS, S_NEXT, row)


@compiled
def hold(sequences: Ints, instance: Ints, row: int) -> None:
    """The instance knows of it from now on."""
    append(sequences, instance, I_ALL_HEAD, I_ALL_TAIL, S_ALL_PREVIOUS, S_ALL_NEXT, row)
    instance[I_ALL] += 1


@compiled
def leave_instance(sequences: Ints, instance: Ints, row: int) -> None:
    unlink(sequences, instance, I_ALL_HEAD, I_ALL_TAIL, S_ALL_PREVIOUS, S_ALL_NEXT, row)
    instance[I_ALL] -= 1
