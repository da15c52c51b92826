"""Requests from their arrival to their end, whichever instances they meet: `control.gateway` over arrays."""

import numpy as np

from control.simulator.serving.kernel.columns import (
    A_CONTEXT,
    A_KNOWN,
    A_PARKED,
    A_PARKED_HEAD,
    A_PARKED_TAIL,
    ABSENT,
    AF_MEAN_OUTPUT,
    AF_OUTPUT_DONE_S,
    AF_OUTPUT_PER_S,
    AF_PROMPT_DONE_S,
    AF_PROMPT_PER_S,
    C_NEXT,
    C_PARKED,
    C_PARKED_NEXT,
    C_PARKED_PREVIOUS,
    C_PREVIOUS,
    C_REQUEST,
    CF_UNITS_PER_S,
    CF_UNTIL_S,
    COMPUTED,
    DECODE,
    DRY,
    EXPECTED,
    I_ALIVE,
    I_ALL,
    I_ALL_HEAD,
    I_ARRIVALS,
    I_ROOM,
    I_RUNNING,
    LOST,
    O_DECODE,
    O_MADE,
    O_OUTCOME,
    O_PREFILL,
    O_RESTARTS,
    OF_FINISH_S,
    PREFILL,
    R_FREE,
    R_LOST,
    R_NEWEST,
    R_OLDEST,
    R_OPEN,
    R_PENDING,
    R_ROOM,
    R_WAKE,
    R_WAKES,
    REACHED,
    REFUSED,
    S_ARRIVAL,
    S_BLOCKS,
    S_END,
    S_INSTANCE,
    S_LEG,
    S_MOST,
    S_PHASE,
    S_RUN,
    S_TOKENS,
    SERVED,
    STALE,
    WHOLE,
)
from control.simulator.serving.kernel.compiled import compiled
from control.simulator.serving.kernel.heap import push
from control.simulator.serving.kernel.lists import append, hold, unlink, wait
from control.simulator.serving.kernel.places import could_ever_fit
from control.simulator.serving.kernel.scheduler import forget, wake
from control.simulator.serving.kernel.world import Limits, World
from policies import admission

_BUSY = -1
_wait_s = compiled(admission.wait_s)
_done_s = compiled(admission.done_s)


@compiled
def arrive(w: World, limits: Limits, request: int, now_s: float) -> None:
    """Take it, so that it is dispatched next, or refuse it. There must be a free call."""
    app = w.app[request]
    longest = w.prompt[request] + w.output[request]
    if not w.apps[app, A_KNOWN] or longest > w.apps[app, A_CONTEXT] or not _is_admitted(w, limits, request, now_s):
        w.outcomes[request, O_OUTCOME] = REFUSED
        return
    call = w.registers[R_FREE]
    row = w.calls[call]
    w.registers[R_FREE] = row[C_NEXT]
    row[C_REQUEST] = request
    row[C_PARKED] = 0
    row[C_NEXT] = -1
    newest = w.registers[R_NEWEST]
    row[C_PREVIOUS] = newest
    if newest < 0:
        w.registers[R_OLDEST] = call
    else:
        w.calls[newest, C_NEXT] = call
    w.registers[R_NEWEST] = call
    w.registers[R_OPEN] += 1
    w.calls_f[call, CF_UNTIL_S] = np.nan
    w.calls_f[call, CF_UNITS_PER_S] = w.apps_f[app, AF_OUTPUT_PER_S]
    w.registers[R_PENDING] = call


@compiled
def _is_admitted(w: World, limits: Limits, request: int, now_s: float) -> bool:
    if not limits.admits:
        return True
    app = w.apps_f[w.app[request]]
    if min(app[AF_PROMPT_PER_S], app[AF_OUTPUT_PER_S]) <= 0:
        return False
    ahead_s = max(_wait_s(app[AF_PROMPT_DONE_S], now_s), _wait_s(app[AF_OUTPUT_DONE_S], now_s))
    if ahead_s > limits.max_wait_s:
        return False
    prompt_s, output_s = app[AF_PROMPT_DONE_S], app[AF_OUTPUT_DONE_S]
    app[AF_PROMPT_DONE_S] = _done_s(prompt_s, now_s, float(w.prompt[request]), app[AF_PROMPT_PER_S])
    app[AF_OUTPUT_DONE_S] = _done_s(output_s, now_s, app[AF_MEAN_OUTPUT], app[AF_OUTPUT_PER_S])
    return True


@compiled
def finish(w: World, limits: Limits, call: int, outcome: int, now_s: float) -> None:
    """The call is over, and holds nothing any more."""
    row = w.calls[call]
    request = row[C_REQUEST]
    w.outcomes[request, O_OUTCOME] = outcome
    if outcome == SERVED:
        w.times_s[request, OF_FINISH_S] = now_s + limits.reply_s
    if limits.admits:
        app = w.apps_f[w.app[request]]
        left = app[AF_MEAN_OUTPUT] - w.outcomes[request, O_MADE]
        app[AF_OUTPUT_DONE_S] -= left / w.calls_f[call, CF_UNITS_PER_S]
    unlink(w.calls, w.registers, R_OLDEST, R_NEWEST, C_PREVIOUS, C_NEXT, call)
    row[C_NEXT] = w.registers[R_FREE]
    row[C_REQUEST] = -1
    w.registers[R_FREE] = call
    w.registers[R_OPEN] -= 1


@compiled
def drop(w: World, call: int, now_s: float) -> None:
    """Forget its attempt wherever something is held for it."""
    for row in (2 * call, 2 * call + 1):
        if w.sequences[row, S_PHASE] != ABSENT:
            forget(w, row, now_s)


@compiled
def give_up(w: World, limits: Limits, call: int, now_s: float) -> None:
    """Its client is told that it failed."""
    drop(w, call, now_s)
    if w.calls[call, C_PARKED]:
        unpark(w, call)
    finish(w, limits, call, LOST, now_s)


@compiled
def lose_next(w: World, limits: Limits, now_s: float) -> None:
    """The next attempt at the instance that is lost: its call goes on elsewhere, unless it has lost too many."""
    row = w.instances[w.registers[R_LOST], I_ALL_HEAD]
    if row < 0:
        w.registers[R_LOST] = -1
        return
    call = row >> 1
    drop(w, call, now_s)
    request = w.calls[call, C_REQUEST]
    w.outcomes[request, O_RESTARTS] += 1
    if w.outcomes[request, O_RESTARTS] > limits.max_resumptions:
        finish(w, limits, call, LOST, now_s)
    else:
        w.registers[R_PENDING] = call


@compiled
def wake_next(w: World) -> None:
    """The parked call of the app that waits longest is tried again, while something is open."""
    app = w.registers[R_WAKE]
    call = w.apps[app, A_PARKED_HEAD]
    if w.registers[R_WAKES] == 0 or call < 0 or w.picked[app, 1] < 0:
        w.registers[R_WAKE] = -1
        return
    w.registers[R_WAKES] -= 1
    unpark(w, call)
    w.registers[R_PENDING] = call


@compiled
def dispatch(w: World, limits: Limits, now_s: float) -> int:
    """Begin an attempt at the pending call, which stays pending where an instance refuses it; REACHED, or DRY where
    choices are needed for it."""
    call = w.registers[R_PENDING]
    request = w.calls[call, C_REQUEST]
    app = w.app[request]
    if w.picked[app, 1] < 0:
        _park(w, limits, call, now_s)
        return REACHED
    if w.picked[app, 0] == w.picked[app, 1]:
        return DRY
    first, second = w.picks[app, w.picked[app, 0], 0], w.picks[app, w.picked[app, 0], 1]
    w.picked[app, 0] += 1
    w.calls_f[call, CF_UNTIL_S] = np.nan
    _use_room(w, app, first)
    wake(w, first, now_s)
    if second >= 0:
        _use_room(w, app, second)
        wake(w, second, now_s)
    refusal = _refusal(w, limits, request, first, second)
    if refusal == _BUSY:
        return REACHED
    w.registers[R_PENDING] = -1
    if refusal == REFUSED:
        finish(w, limits, call, LOST if w.outcomes[request, O_MADE] else REFUSED, now_s)
        return REACHED
    w.outcomes[request, O_PREFILL] = first
    w.outcomes[request, O_DECODE] = first if second < 0 else second
    _submit(w, 2 * call, first, WHOLE if second < 0 else PREFILL)
    if second >= 0:
        _submit(w, 2 * call + 1, second, DECODE)
    return REACHED


@compiled
def _use_room(w: World, app: int, instance: int) -> None:
    w.instances[instance, I_ROOM] -= 1
    if w.instances[instance, I_ROOM] <= 0:
        w.registers[R_ROOM] = app


@compiled
def _refusal(w: World, limits: Limits, request: int, first: int, second: int) -> int:
    """_BUSY or REFUSED, as the first leg that does not take it says, or else the second; REACHED: both take it."""
    whole = w.prompt[request] + w.output[request] - 1
    for leg in range(2):
        instance = second if leg else first
        if instance < 0 or not w.instances[instance, I_ALIVE]:
            continue  # nobody is there to refuse
        is_prefill = leg == 0 and second >= 0
        if not could_ever_fit(w, instance, w.prompt[request] + w.outcomes[request, O_MADE] if is_prefill else whole):
            return REFUSED
        if w.instances[instance, I_ALL] - w.instances[instance, I_RUNNING] >= limits.max_waiting:
            w.instances[instance, I_ROOM] = 0
            w.registers[R_ROOM] = w.app[request]
            return _BUSY
    return REACHED


@compiled
def _submit(w: World, row: int, instance: int, leg: int) -> None:
    own, sequence = w.instances[instance], w.sequences[row]
    request = w.calls[row >> 1, C_REQUEST]
    own[I_ARRIVALS] += 1
    sequence[S_INSTANCE] = instance
    sequence[S_LEG] = leg
    sequence[S_ARRIVAL] = own[I_ARRIVALS]
    sequence[S_RUN] = sequence[S_BLOCKS] = 0
    sequence[S_TOKENS] = w.prompt[request] + w.outcomes[request, O_MADE]
    sequence[S_END] = w.prompt[request] + w.output[request]
    sequence[S_MOST] = sequence[S_TOKENS] if leg == PREFILL else sequence[S_END] - 1
    hold(w.sequences, own, row)
    if leg == DECODE:
        sequence[S_PHASE] = EXPECTED
    else:
        sequence[S_PHASE] = COMPUTED
        wait(w.sequences, own, row)


@compiled
def _park(w: World, limits: Limits, call: int, now_s: float) -> None:
    """It waits until something opens; not for ever."""
    w.registers[R_PENDING] = -1
    if np.isnan(w.calls_f[call, CF_UNTIL_S]):
        w.calls_f[call, CF_UNTIL_S] = now_s + limits.resume_wait_s
    if now_s >= w.calls_f[call, CF_UNTIL_S]:
        finish(w, limits, call, LOST, now_s)
        return
    row = w.calls[call]
    row[C_PARKED] = 1
    app = w.apps[w.app[row[C_REQUEST]]]
    append(w.calls, app, A_PARKED_HEAD, A_PARKED_TAIL, C_PARKED_PREVIOUS, C_PARKED_NEXT, call)
    app[A_PARKED] += 1
    push(w, w.calls_f[call, CF_UNTIL_S], STALE, row[C_REQUEST], call, row[C_REQUEST])


@compiled
def unpark(w: World, call: int) -> None:
    row = w.calls[call]
    row[C_PARKED] = 0
    app = w.apps[w.app[row[C_REQUEST]]]
    app[A_PARKED] -= 1
    unlink(w.calls, app, A_PARKED_HEAD, A_PARKED_TAIL, C_PARKED_PREVIOUS, C_PARKED_NEXT, call)
