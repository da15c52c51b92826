"""The events to come, soonest first; at one time by priority, then by the id of what they happen to."""

from control.simulator.serving.kernel.columns import R_HEAP
from control.simulator.serving.kernel.compiled import compiled
from control.simulator.serving.kernel.world import World

ID_BITS = 48


@compiled
def _before(w: World, a: int, b: int) -> bool:
    if w.heap_s[a] != w.heap_s[b]:
        return bool(w.heap_s[a] < w.heap_s[b])
    return bool(w.heap[a, 0] < w.heap[b, 0])


@compiled
def _swap(w: World, a: int, b: int) -> None:
    w.heap_s[a], w.heap_s[b] = w.heap_s[b], w.heap_s[a]
    for k in range(3):
        w.heap[a, k], w.heap[b, k] = w.heap[b, k], w.heap[a, k]


@compiled
def push(w: World, at_s: float, priority: int, subject: int, first: int, second: int) -> None:
    """`subject`: id of what it happens to. There must be room."""
    at = w.registers[R_HEAP]
    w.registers[R_HEAP] = at + 1
    w.heap_s[at] = at_s
    w.heap[at, 0] = (priority << ID_BITS) | subject
    w.heap[at, 1] = first
    w.heap[at, 2] = second
    while at > 0:
        parent = (at - 1) >> 1
        if not _before(w, at, parent):
            return
        _swap(w, at, parent)
        at = parent


@compiled
def pop(w: World) -> None:
    """Drop the soonest, which is at 0."""
    last = w.registers[R_HEAP] - 1
    w.registers[R_HEAP] = last
    if last <= 0:
        return
    _swap(w, 0, last)
    at = 0
    while True:
        child = 2 * at + 1
        if child >= last:
            return
        if child + 1 < last and _before(w, child + 1, child):
            child += 1
        if not _before(w, child, at):
            return
        _swap(w, child, at)
        at = child
