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
def remove(sequences: Ints, ends: Ints, head: int, tail: int, row: int) -> None:
    before, after = sequences[row, S_PREVIOUS], sequences[row, S_NEXT]
    if before < 0:
        ends[head] = after
    else:
        sequences[before, S_NEXT] = after
    if after < 0:
        ends[tail] = before
    else:
        sequences[after, S_PREVIOUS] = before


@compiled
def wait(sequences: Ints, instance: Ints, row: int) -> None:
    insert(sequences, instance, I_WAIT_HEAD, I_WAIT_TAIL, row)


@compiled
def wait_no_more(sequences: Ints, instance: Ints, row: int) -> None:
    remove(sequences, instance, I_WAIT_HEAD, I_WAIT_TAIL, row)


@compiled
def enter_group(sequences: Ints, group: Ints, row: int) -> None:
    insert(sequences, group, G_HEAD, G_TAIL, row)


@compiled
def leave_group(sequences: Ints, group: Ints, row: int) -> None:
    remove(sequences, group, G_HEAD, G_TAIL, row)


@compiled
def hold(sequences: Ints, instance: Ints, row: int) -> None:
    """The instance knows of it from now on."""
    last = instance[I_ALL_TAIL]
    sequences[row, S_ALL_PREVIOUS] = last
    sequences[row, S_ALL_NEXT] = -1
    if last < 0:
        instance[I_ALL_HEAD] = row
    else:
        sequences[last, S_ALL_NEXT] = row
    instance[I_ALL_TAIL] = row
    instance[I_ALL] += 1


@compiled
def let_go(sequences: Ints, instance: Ints, row: int) -> None:
    before, after = sequences[row, S_ALL_PREVIOUS], sequences[row, S_ALL_NEXT]
    if before < 0:
        instance[I_ALL_HEAD] = after
    else:
        sequences[before, S_ALL_NEXT] = after
    if after < 0:
        instance[I_ALL_TAIL] = before
    else:
        sequences[after, S_ALL_PREVIOUS] = before
    instance[I_ALL] -= 1
