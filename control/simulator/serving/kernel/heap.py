"""The events to come, soonest first; at one time by priority, then by the id of what they happen to."""

from control.simulator.serving.kernel.compiled import compiled
from control.simulator.serving.kernel.records import LOOK, ORDER, Event
from control.simulator.serving.kernel.world import World

ID_BITS = 48


@compiled
def _is_before(a: Event, b: Event) -> bool:
    if a.at_s != b.at_s:
        return a.at_s < b.at_s
    return a.key < b.key


@compiled
def _swap(a: Event, b: Event) -> None:
    a.at_s, b.at_s = b.at_s, a.at_s
    a.key, b.key = b.key, a.key
    a.first, b.first = b.first, a.first
    a.second, b.second = b.second, a.second


@compiled
def push(w: World, at_s: float, priority: int, subject: int, first: int, second: int) -> None:
    """Add an event that happens to the thing with id `subject`. There must be room."""
    heap, at = w.heap, w.state[0].events
    w.state[0].events = at + 1
    event = heap[at]
    event.at_s = at_s
    event.key = (priority << ID_BITS) | subject
    event.first = first
    event.second = second
    while at > 0:
        parent = (at - 1) >> 1
        if not _is_before(heap[at], heap[parent]):
            return
        _swap(heap[at], heap[parent])
        at = parent


@compiled
def pop(w: World) -> None:
    """Drop the soonest, which is at 0."""
    heap, last = w.heap, w.state[0].events - 1
    w.state[0].events = last
    if last <= 0:
        return
    _swap(heap[0], heap[last])
    at = 0
    while True:
        child = 2 * at + 1
        if child >= last:
            return
        if child + 1 < last and _is_before(heap[child + 1], heap[child]):
            child += 1
        if not _is_before(heap[child], heap[at]):
            return
        _swap(heap[child], heap[at])
        at = child


@compiled
def look_at(w: World, app: int, at_s: float) -> None:
    """Have it be looked at that moment, or before, whether requests that wait for the app can be bound."""
    if at_s < w.apps[app].look_s:
        w.apps[app].look_s = at_s
        push(w, at_s, LOOK, app, app, 0)


@compiled
def wake(w: World, instance: int, now_s: float) -> None:
    """Have the instance order what there is to do, once for all that happens now."""
    row = w.instances[instance]
    if row.alive and not row.is_due:
        row.is_due = True
        push(w, now_s, ORDER, instance, instance, 0)
