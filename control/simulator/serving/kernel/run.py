"""The loop over events."""

import numpy as np

from control.simulator.serving.autoregressive.hand_offs import is_coming, send, take_over
from control.simulator.serving.autoregressive.joins import join
from control.simulator.serving.autoregressive.records import PIECE_BITS, STAGE_BITS
from control.simulator.serving.kernel.calls import arrive, dispatch, give_up, lose_next, unpark, wake_next
from control.simulator.serving.kernel.compiled import by_reference, compiled, entry
from control.simulator.serving.kernel.heap import ID_BITS, look_at, pop, wake
from control.simulator.serving.kernel.late_binding import bind_waiting
from control.simulator.serving.kernel.legs import complete, take_input
from control.simulator.serving.kernel.records import (
    ARRIVED,
    FULL,
    INPUT,
    LOOK,
    ORDER,
    REACHED,
    ROOM,
    SEND,
    STALE,
    STEP,
)
from control.simulator.serving.kernel.stations import end_service, order
from control.simulator.serving.kernel.world import Limits, World

_shared = by_reference(World._fields)


@entry
def run(world: World, limits: Limits, until_s: float) -> int:
    """Let everything happen that happens before `until_s`, what is due at the moment first; REACHED, or what has to be
    done before it is called again: see the exits in `records`."""
    w = _shared(*world)
    state, events = w.state[0], w.places.shape[1] + w.seated.shape[1]
    while True:
        if state.filled:
            return ROOM
        if state.pending >= 0:
            left = dispatch(w, limits, state.now_s)
            if left != REACHED:
                return left
        elif state.lost >= 0:
            lose_next(w, limits, state.now_s)
        elif state.waking > 0:
            wake_next(w)
        elif state.refreshed:
            state.refreshed = False
            for app in range(len(w.apps)):
                look_at(w, app, state.now_s)
        elif state.free < 0 or state.events + state.open * events + len(w.groups) >= len(w.heap):
            return FULL
        elif not _next(w, limits, until_s):
            return REACHED


@compiled
def _next(w: World, limits: Limits, until_s: float) -> bool:
    """The next event, if it is before `until_s`: a time-out, an arrival, or what is on the heap."""
    late_s = come_s = heap_s = np.inf
    state = w.state[0]
    oldest, request = w.call_ends[0].head, state.request
    if oldest >= 0:
        late_s = w.arrival_s[w.calls[oldest].request] + limits.request_s + limits.request_timeout_s
    if request < len(w.arrival_s):
        come_s = w.arrival_s[request] + limits.request_s
    if state.events:
        heap_s = w.heap[0].at_s
    now_s = min(late_s, come_s, heap_s)
    if not now_s < until_s:
        return False
    state.now_s = now_s
    if late_s <= now_s:
        give_up(w, limits, oldest, now_s)
    elif come_s <= now_s:
        state.request += 1
        arrive(w, limits, request, now_s)
    else:
        _happen(w, limits, now_s)
    return True


@compiled
def _happen(w: World, limits: Limits, now_s: float) -> None:
    """What is first on the heap."""
    event = w.heap[0]
    priority, subject = event.key >> ID_BITS, event.key & ((1 << ID_BITS) - 1)
    first, second = event.first, event.second
    pop(w)
    if priority == STEP:
        if w.instances[w.groups[first].instance].alive and w.groups[first].flight == second:
            _end_step(w, limits, first, second, now_s)
    elif priority == ORDER:
        w.instances[first].is_due = False
        if w.instances[first].alive:
            order(w, limits, first, now_s)
    elif priority == LOOK:
        if w.apps[first].look_s == now_s:
            bind_waiting(w, limits, first, now_s)
    elif priority == INPUT:
        take_input(w, subject, first, second, now_s)
    elif priority == STALE:
        call = w.calls[first]
        if call.request == second and call.is_parked and call.until_s == now_s:
            unpark(w, first)
            w.state[0].pending = first
    elif priority == SEND:
        request = subject >> STAGE_BITS
        if is_coming(w, request, first, second >> (STAGE_BITS + PIECE_BITS)):
            send(w, request, first, second, now_s)
    elif priority == ARRIVED and is_coming(w, subject, first, second):
        take_over(w, limits, subject, first, now_s)


@compiled
def _end_step(w: World, limits: Limits, group: int, step: int, now_s: float) -> None:
    """The group, or the lane, is through with its step, or its batch."""
    instance = w.groups[group].instance
    w.groups[group].flight = 0
    wake(w, instance, now_s)
    if not w.instances[instance].serves_batches:
        join(w, limits, group, step, now_s)
        return
    while w.group_ends[group].head >= 0:
        row = w.group_ends[group].head
        end_service(w, row)
        complete(w, limits, row, now_s)
