"""The loop over events."""

import numpy as np

from control.simulator.serving.kernel.calls import (
    arrive,
    dispatch,
    drop,
    finish,
    give_up,
    lose_next,
    unpark,
    wake_next,
)
from control.simulator.serving.kernel.columns import (
    ARRIVED,
    C_PARKED,
    C_REQUEST,
    CF_UNTIL_S,
    COMING,
    COMPUTED,
    EXPECTED,
    FULL,
    G_FLIGHT,
    G_HEAD,
    G_INSTANCE,
    HELD,
    I_ALIVE,
    I_DUE,
    O_MADE,
    OF_FIRST_S,
    OF_HANDED_S,
    OFFERED,
    ORDER,
    PREFILL,
    R_FREE,
    R_HEAP,
    R_LOST,
    R_OLDEST,
    R_OPEN,
    R_PENDING,
    R_REQUEST,
    R_ROOM,
    R_WAKE,
    REACHED,
    RF_NOW_S,
    ROOM,
    S_COUNT,
    S_END,
    S_FLIGHT,
    S_INSTANCE,
    S_LEG,
    S_NEXT,
    S_NODES,
    S_PHASE,
    S_POSITION,
    S_RUN,
    S_SAMPLED,
    S_TOKENS,
    SEND,
    SERVED,
    STALE,
    STEP,
)
from control.simulator.serving.kernel.compiled import by_reference, compiled, entry
from control.simulator.serving.kernel.heap import ID_BITS, pop, push
from control.simulator.serving.kernel.links import hand_off_end_s
from control.simulator.serving.kernel.lists import wait
from control.simulator.serving.kernel.places import count_prompt
from control.simulator.serving.kernel.scheduler import forget, order, wake
from control.simulator.serving.kernel.world import Limits, World

_shared = by_reference(World._fields)


@entry
def run(world: World, limits: Limits, until_s: float) -> int:
    """Let everything happen that happens before `until_s`, what is due at the moment first; REACHED, or what has to be
    done before it is called again: see the exits in `columns`."""
    w = _shared(*world)
    while True:
        if w.registers[R_ROOM] >= 0:
            return ROOM
        if w.registers[R_PENDING] >= 0:
            left = dispatch(w, limits, w.registers_f[RF_NOW_S])
            if left != REACHED:
                return left
        elif w.registers[R_LOST] >= 0:
            lose_next(w, limits, w.registers_f[RF_NOW_S])
        elif w.registers[R_WAKE] >= 0:
            wake_next(w)
        elif w.registers[R_FREE] < 0 or w.registers[R_HEAP] + w.registers[R_OPEN] + len(w.groups) >= len(w.heap_s):
            return FULL
        elif not _next(w, limits, until_s):
            return REACHED


@compiled
def _next(w: World, limits: Limits, until_s: float) -> bool:
    """The next event, if it is before `until_s`: a time-out, an arrival, or what is on the heap."""
    late_s = come_s = heap_s = np.inf
    oldest, request = w.registers[R_OLDEST], w.registers[R_REQUEST]
    if oldest >= 0:
        late_s = w.arrival_s[w.calls[oldest, C_REQUEST]] + limits.request_s + limits.request_timeout_s
    if request < len(w.arrival_s):
        come_s = w.arrival_s[request] + limits.request_s
    if w.registers[R_HEAP]:
        heap_s = w.heap_s[0]
    now_s = min(late_s, come_s, heap_s)
    if not now_s < until_s:
        return False
    w.registers_f[RF_NOW_S] = now_s
    if late_s <= now_s:
        give_up(w, limits, oldest, now_s)
    elif come_s <= now_s:
        w.registers[R_REQUEST] += 1
        arrive(w, limits, request, now_s)
    else:
        _happen(w, limits, now_s)
    return True


@compiled
def _happen(w: World, limits: Limits, now_s: float) -> None:
    """What is first on the heap."""
    priority, subject = w.heap[0, 0] >> ID_BITS, w.heap[0, 0] & ((1 << ID_BITS) - 1)
    first, second = w.heap[0, 1], w.heap[0, 2]
    pop(w)
    if priority == STEP:
        if w.instances[w.groups[first, G_INSTANCE], I_ALIVE] and w.groups[first, G_FLIGHT] == second:
            _join(w, limits, first, second, now_s)
    elif priority == ORDER:
        w.instances[first, I_DUE] = 0
        if w.instances[first, I_ALIVE]:
            order(w, limits, first, now_s)
    elif priority == STALE:
        is_parked = w.calls[first, C_REQUEST] == second and w.calls[first, C_PARKED]
        if is_parked and w.calls_f[first, CF_UNTIL_S] == now_s:
            unpark(w, first)
            w.registers[R_PENDING] = first
    elif _is_coming(w, subject, first, second):
        if priority == SEND:
            _send(w, subject, first, second, now_s)
        elif priority == ARRIVED:
            _take_kv(w, subject, first, now_s)


@compiled
def _is_coming(w: World, request: int, call: int, run: int) -> bool:
    """The hand-off goes on: both legs are as they were when it began."""
    source, target = w.sequences[2 * call], w.sequences[2 * call + 1]
    return bool(
        w.calls[call, C_REQUEST] == request
        and source[S_PHASE] == HELD
        and target[S_PHASE] == COMING
        and target[S_RUN] == run
        and w.instances[source[S_INSTANCE], I_ALIVE]
        and w.instances[target[S_INSTANCE], I_ALIVE]
    )


@compiled
def _send(w: World, request: int, call: int, run: int, now_s: float) -> None:
    source, target = w.sequences[2 * call], w.sequences[2 * call + 1]
    end_s = hand_off_end_s(
        w,
        source[S_INSTANCE],
        source[S_NODES:],
        target[S_INSTANCE],
        target[S_NODES:],
        target[S_POSITION],
        now_s,
    )
    push(w, end_s, ARRIVED, request, call, run)


@compiled
def _take_kv(w: World, request: int, call: int, now_s: float) -> None:
    """The decode leg goes on, the prefill leg is done."""
    w.times_s[request, OF_HANDED_S] = now_s
    target = w.sequences[2 * call + 1]
    target[S_PHASE] = COMPUTED
    wake(w, target[S_INSTANCE], now_s)
    forget(w, 2 * call, now_s)


@compiled
def _join(w: World, limits: Limits, group: int, step: int, now_s: float) -> None:
    """The whole group is through: its requests move on."""
    w.groups[group, G_FLIGHT] = 0
    wake(w, w.groups[group, G_INSTANCE], now_s)
    row = w.groups[group, G_HEAD]
    while row >= 0:
        sequence = w.sequences[row]
        after = sequence[S_NEXT]
        if sequence[S_FLIGHT] == step:
            sequence[S_FLIGHT] = 0
            sequence[S_POSITION] += sequence[S_COUNT]
            if sequence[S_POSITION] == sequence[S_TOKENS]:
                if not sequence[S_SAMPLED]:
                    count_prompt(w, row, -1)
                sequence[S_SAMPLED] = 1
                sequence[S_TOKENS] += 1
                _deliver(w, limits, row, now_s)
        row = after


@compiled
def _deliver(w: World, limits: Limits, row: int, now_s: float) -> None:
    """One more token for its client."""
    sequence, call = w.sequences[row], row >> 1
    request = w.calls[call, C_REQUEST]
    w.outcomes[request, O_MADE] += 1
    if np.isnan(w.times_s[request, OF_FIRST_S]):
        w.times_s[request, OF_FIRST_S] = now_s + limits.reply_s
    if sequence[S_TOKENS] == sequence[S_END]:
        drop(w, call, now_s)
        finish(w, limits, call, SERVED, now_s)
    elif sequence[S_LEG] == PREFILL:
        sequence[S_PHASE] = HELD
        target = w.sequences[row + 1]
        if target[S_PHASE] == EXPECTED and w.instances[target[S_INSTANCE], I_ALIVE]:
            target[S_PHASE] = OFFERED
            target[S_TOKENS] += 1
            wait(w.sequences, w.instances[target[S_INSTANCE]], row + 1)
            wake(w, target[S_INSTANCE], now_s)
