"""Requests from their arrival to their end, whichever instances they meet: `control.gateway` over arrays."""

import numpy as np

from control.simulator.serving.autoregressive.requests import link_peers, submit_tokens
from control.simulator.serving.kernel.compiled import compiled
from control.simulator.serving.kernel.heap import look_at, push, wake
from control.simulator.serving.kernel.lists import append, enqueue, hold, unlink
from control.simulator.serving.kernel.records import (
    ABSENT,
    AWAITING,
    DRY,
    LOST,
    REACHED,
    READY,
    REFUSED,
    SERVED,
    STALE,
)
from control.simulator.serving.kernel.stations import fits, forget, note_room
from control.simulator.serving.kernel.world import Limits, World
from policies import admission, late_refusal, queue_parts, slack
from policies.rows import Ints

_wait_s = compiled(admission.wait_s)
_done_s = compiled(admission.done_s)
_units_of = compiled(admission.units_of)


@compiled
def arrive(w: World, limits: Limits, request: int, now_s: float) -> None:
    """Take the request, so that it is dispatched next, or refuse it. There must be a free call."""
    app = w.apps[w.app[request]]
    longest = w.prompt[request] + w.output[request]
    if not app.known or longest > app.context or not _is_admitted(w, limits, request, now_s):
        w.fates[request].outcome = REFUSED
        return
    state = w.state[0]
    call = state.free
    state.free = w.call_links[call].next
    append(w.call_links, w.call_ends[0], call)
    row = w.calls[call]
    row.request = request
    row.is_parked = False
    row.until_s = np.nan
    row.is_waiting = False
    row.is_excused = False
    for number in range(app.charges):
        charge = w.charges[app.charge_at + number]
        share = charge.per_output_token
        w.booked[call, number] = charge.units_per_s / share if share else np.inf
    state.open += 1
    state.pending = call


@compiled
def _is_admitted(w: World, limits: Limits, request: int, now_s: float) -> bool:
    if not limits.admits:
        return True
    app = w.apps[w.app[request]]
    most_s = limits.max_wait_s * admission.WAIT_SHARES[w.rank[request]]
    for at in range(app.charge_at, app.charge_at + app.charges):
        charge = w.charges[at]
        if _units(w, request, at) == 0:
            continue  # of a route that nothing serves
        if charge.units_per_s <= 0 or _wait_s(w.done_s[charge.work_class], now_s) > most_s:
            return False
    for at in range(app.charge_at, app.charge_at + app.charges):
        charge, units = w.charges[at], _units(w, request, at)
        if units > 0:
            w.done_s[charge.work_class] = _done_s(w.done_s[charge.work_class], now_s, units, charge.units_per_s)
    return True


@compiled
def _units(w: World, request: int, at: int) -> float:
    """Units that the request is charged by the row of `charges`."""
    rule, output = w.charges[at], _expected(w, request)
    return _units_of(rule.per_request, rule.per_prompt_token, rule.per_output_token, w.prompt[request], output)


@compiled
def _expected(w: World, request: int) -> float:
    """Tokens of its answer, as admission expects them."""
    return min(w.apps[w.app[request]].mean_output, float(w.most[request]))


@compiled
def finish(w: World, limits: Limits, call: int, outcome: int, now_s: float) -> None:
    """The call is over, and holds nothing any more."""
    row = w.calls[call]
    fate = w.fates[row.request]
    fate.outcome = outcome
    if outcome == SERVED:
        fate.finish_s = now_s + limits.reply_s
    if limits.admits:
        app = w.apps[w.app[row.request]]
        for number in range(app.charges):
            work_class = w.charges[app.charge_at + number].work_class
            w.done_s[work_class] -= (_expected(w, row.request) - fate.made) / w.booked[call, number]
    unlink(w.call_links, w.call_ends[0], call)
    w.call_links[call].next = w.state[0].free
    row.request = -1
    w.state[0].free = call
    w.state[0].open -= 1


@compiled
def drop(w: World, call: int, now_s: float) -> None:
    """Forget its attempt wherever something is held for it."""
    legs = w.places.shape[1]
    for row in range(call * legs, call * legs + legs):
        if w.legs[row].phase != ABSENT:
            forget(w, row, now_s)


@compiled
def give_up(w: World, limits: Limits, call: int, now_s: float) -> None:
    """Its client is told that it failed."""
    drop(w, call, now_s)
    if w.calls[call].is_parked:
        unpark(w, call)
    if w.calls[call].is_waiting:
        leave_queue(w, call)
    finish(w, limits, call, LOST, now_s)


@compiled
def lose_next(w: World, limits: Limits, now_s: float) -> None:
    """The next attempt at the instance that is lost: its call goes on elsewhere, unless it has lost too many."""
    row = w.held_ends[w.state[0].lost].head
    if row < 0:
        w.state[0].lost = -1
        return
    call = row // w.places.shape[1]
    drop(w, call, now_s)
    fate = w.fates[w.calls[call].request]
    fate.restarts += 1
    if fate.restarts > limits.max_resumptions:
        finish(w, limits, call, LOST, now_s)
    else:
        w.state[0].pending = call


@compiled
def wake_next(w: World) -> None:
    """The parked call of an app that waits longest is tried again, while something is open."""
    for number in range(len(w.apps)):
        app, call = w.apps[number], w.parked_ends[number].head
        if app.wakes == 0:
            continue
        app.wakes -= 1
        if call < 0 or w.picked[number].made < 0:
            app.wakes = 0
        else:
            unpark(w, call)
            w.state[0].pending = call
        w.state[0].waking -= app.wakes == 0
        return


@compiled
def dispatch(w: World, limits: Limits, now_s: float) -> int:
    """Begin an attempt at the pending call, which stays pending where an instance refuses it; REACHED, or DRY where
    choices are needed for it."""
    call = w.state[0].pending
    own = w.calls[call]
    app = w.app[own.request]
    picked = w.picked[app]
    if picked.made < 0:
        first = w.apps[app].member_at
        if late_refusal.is_shut(w.members, first, first + w.apps[app].members):
            own.is_excused = True
        park(w, limits, call, now_s)
        return REACHED
    if w.apps[app].by_slack:
        _join_queue(w, limits, call, now_s)
        return REACHED
    if picked.taken == picked.made:
        return DRY
    choice = w.picks[app, picked.taken]
    picked.taken += 1
    own.route = choice[0]
    attempt(w, limits, call, choice[1 : 1 + w.routes[own.route].legs], now_s)
    return REACHED


@compiled
def attempt(w: World, limits: Limits, call: int, chosen: Ints, now_s: float) -> None:
    """Begin an attempt at the pending call on these instances, one for each leg of its route."""
    own = w.calls[call]
    own.until_s = np.nan
    for instance in chosen:
        w.instances[instance].room -= 1
        if w.instances[instance].room <= 0:
            note_room(w, instance)
        wake(w, instance, now_s)
    fate = w.fates[own.request]
    for instance in chosen:
        if not w.instances[instance].alive:
            continue  # nobody is there to refuse
        if not fits(w, instance, w.prompt[own.request], fate.made, w.output[own.request]):
            w.state[0].pending = -1
            finish(w, limits, call, LOST if fate.made else REFUSED, now_s)
            return
        if w.instances[instance].held - w.instances[instance].running >= limits.max_waiting:
            w.instances[instance].room = 0
            note_room(w, instance)
            return
    w.state[0].pending = -1
    _submit(w, call, chosen)


@compiled
def _join_queue(w: World, limits: Limits, call: int, now_s: float) -> None:
    """Have the pending call wait until an instance has a place for it."""
    request = w.calls[call].request
    number = w.app[request]
    app, made = w.apps[number], w.fates[request].made
    row = w.waiting[call]
    row.part = number * queue_parts.PARTS + w.rank[request]
    row.tokens = w.prompt[request] + made
    row.answer = min(float(w.most[request] - made), app.mean_output)
    # A call that was begun elsewhere starts anew: its client has tokens, and waits for the next.
    asked_s = now_s if made else w.arrival_s[request]
    row.deadline_s = asked_s + app.ttft_s + app.ttft_s_per_token * row.tokens - limits.reply_s
    end, is_excused = app.member_at + app.members, w.calls[call].is_excused or made > 0
    slack.join(w.members, app.member_at, end, w.latency_s, w.waiting, w.queues, call, asked_s, 0.0, is_excused)
    w.calls[call].is_waiting = True
    w.state[0].pending = -1
    look_at(w, number, now_s)


@compiled
def leave_queue(w: World, call: int) -> None:
    queue_parts.remove(w.waiting, w.queues, call)
    w.calls[call].is_waiting = False
    w.calls[call].is_excused = w.waiting[call].is_excused


@compiled
def _submit(w: World, call: int, chosen: Ints) -> None:
    """Have the chosen instances hold a leg each; those that need no input wait to be served."""
    own, first = w.calls[call], call * w.places.shape[1]
    w.state[0].attempts += 1
    own.attempt = w.state[0].attempts
    own.open = len(chosen)
    w.places[own.request] = -1
    for number in range(len(chosen)):
        row, instance = first + number, chosen[number]
        w.places[own.request, number] = instance
        w.instances[instance].arrivals += 1
        leg = w.legs[row]
        leg.instance = instance
        leg.arrival = w.instances[instance].arrivals
        leg.group = -1
        leg.missing = leg.unsent = 0
        leg.phase = AWAITING
        submit_tokens(w, row)
        hold(w, row)
    for number in range(len(chosen)):
        of_route = w.route_legs[w.routes[own.route].leg_at + number]
        for edge in range(of_route.edge_at, of_route.edge_at + of_route.edges):
            target = first + w.edges[edge].target
            w.legs[target].missing += 1
            link_peers(w, first + number, target)
    for row in range(first, first + len(chosen)):
        if w.legs[row].missing == 0:
            begin(w, row)


@compiled
def begin(w: World, row: int) -> None:
    """All inputs of the leg are there: it waits to be served."""
    leg = w.legs[row]
    leg.phase = READY
    enqueue(w, w.queue_ends[leg.instance], row)


@compiled
def park(w: World, limits: Limits, call: int, now_s: float) -> None:
    """Have the call wait until something opens; not for ever."""
    row = w.calls[call]
    w.state[0].pending = -1
    if np.isnan(row.until_s):
        row.until_s = now_s + limits.resume_wait_s
    if now_s >= row.until_s:
        finish(w, limits, call, LOST, now_s)
        return
    row.is_parked = True
    app = w.app[row.request]
    append(w.parked_links, w.parked_ends[app], call)
    w.apps[app].parked += 1
    push(w, row.until_s, STALE, row.request, call, row.request)


@compiled
def unpark(w: World, call: int) -> None:
    row = w.calls[call]
    row.is_parked = False
    app = w.app[row.request]
    w.apps[app].parked -= 1
    unlink(w.parked_links, w.parked_ends[app], call)
