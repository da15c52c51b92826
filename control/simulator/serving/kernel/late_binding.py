"""Requests that wait in one queue for each app are bound to instances that have a place for them (`policies.slack`)."""

import numpy as np

from control.simulator.serving.autoregressive.records import PREFILL
from control.simulator.serving.kernel.calls import attempt, finish, leave_queue, park
from control.simulator.serving.kernel.compiled import compiled
from control.simulator.serving.kernel.heap import look_at
from control.simulator.serving.kernel.records import REFUSED_LATE
from control.simulator.serving.kernel.world import Limits, World
from policies import late_refusal, queue_parts, slack
from policies.later_legs import choose_legs, most_in_kv


@compiled
def bind_waiting(w: World, limits: Limits, number: int, now_s: float) -> None:
    """Refuse what is late, where the app's objective says so, and bind what can be bound of it now; note when to look
    again."""
    app, part = w.apps[number], number * queue_parts.PARTS
    app.look_s = np.inf
    first, end = app.member_at, app.member_at + app.members
    for at in range(first, end):
        _note_place(w, at, now_s)
    while True:
        call = late_refusal.next_missed(w.members, first, end, w.latency_s, w.waiting, w.queues, part, now_s)
        if call < 0:
            break
        leave_queue(w, call)
        finish(w, limits, call, REFUSED_LATE, now_s)
    while True:
        call, member = slack.next_binding(
            w.members, first, end, w.latency_s, w.busy_s, w.waiting, w.queues, part, now_s, limits.lead_s
        )
        if call < 0:
            break
        row = w.waiting[call]
        _note_kv(w, w.candidates[member].route)
        if not choose_legs(
            w.routes, w.route_legs, w.servers, w.flows, w.flow_zones, w.instances, w.candidates[member], w.chosen
        ):
            w.members[member].has_place = False  # the rest of its route is full
            w.members[member].step_s = -np.inf
            continue
        slack.take(w.members[member], w.latency_s, w.busy_s, row.tokens, row.deadline_s, now_s)
        leave_queue(w, call)
        w.calls[call].route = w.candidates[member].route
        w.state[0].pending = call
        attempt(w, limits, call, w.chosen[: w.routes[w.calls[call].route].legs], now_s)
        if w.state[0].pending >= 0:  # it was refused, and comes again
            return
    if w.picked[number].made < 0:  # nobody can be used: calls wait for that, not for ever
        call = queue_parts.first_waiting(w.queues, part)
        while call >= 0:
            leave_queue(w, call)
            park(w, limits, call, now_s)
            call = queue_parts.first_waiting(w.queues, part)
    elif queue_parts.first_waiting(w.queues, part) >= 0:
        place_s = slack.next_look_s(w.members, first, end, now_s, limits.lead_s)
        look_at(w, number, min(place_s, late_refusal.next_missed_s(w.queues, part)))


@compiled
def _note_place(w: World, at: int, now_s: float) -> None:
    """What the instance has room for. One with nothing to compute can begin at once, whatever was predicted."""
    member, number = w.members[at], w.candidates[at].instance
    member.step_s = -np.inf  # what was given out before has begun
    own = w.instances[number]
    is_idle, is_free = True, own.role != PREFILL
    for group in range(own.group_at, own.group_at + own.groups):
        if w.groups[group].flight:
            is_idle = False
        elif w.groups[group].tokens == 0:
            is_free = True
    waiting = own.held - own.running
    if is_idle and waiting == 0:
        member.free_s, member.end_s = min(member.free_s, now_s), min(member.end_s, now_s)
    member.has_place = is_free and waiting == 0 and own.room > 0
    member.tokens_free = _tokens_free(w, number)


@compiled
def _tokens_free(w: World, number: int) -> float:
    """Tokens of one more prompt that the instance has KV cache for."""
    own = w.instances[number]
    if own.serves_batches:
        return np.inf
    pipeline = w.pipelines[own.model]
    least = np.inf
    for stage in range(pipeline.depth):
        most = 0
        for node in range(w.stages[pipeline.stage_at + stage].node, w.stages[pipeline.stage_at + stage + 1].node):
            most = max(most, w.nodes[own.node_at + node].free_blocks)
        least = min(least, float(most))
    return least * pipeline.block_tokens


@compiled
def _note_kv(w: World, number: int) -> None:
    """What the instances for the later legs of a route have room for in their KV caches."""
    route = w.routes[number]
    for leg in range(route.leg_at + 1, route.leg_at + route.legs):
        servers = w.route_legs[leg]
        for at in range(servers.server_at, servers.server_at + servers.servers):
            server = w.servers[at]
            if server.weight > 0 and not w.instances[server.instance].serves_batches:
                w.instances[server.instance].kv_most = _kv_most(w, server.instance)


@compiled
def _kv_most(w: World, number: int) -> float:
    """As a scheduler tells it to gateways: blocks of the stage that has the fewest, and free ones of the stage that has
    the fewest of those."""
    own = w.instances[number]
    pipeline = w.pipelines[own.model]
    least, least_free = -1, -1
    for stage in range(pipeline.depth):
        blocks, free = 0, 0
        for node in range(w.stages[pipeline.stage_at + stage].node, w.stages[pipeline.stage_at + stage + 1].node):
            blocks += w.limits[pipeline.limit_at + node].blocks
            free += w.nodes[own.node_at + node].free_blocks
        least = blocks if least < 0 else min(least, blocks)
        least_free = free if least_free < 0 else min(least_free, free)
    return most_in_kv(own.running, least, least_free)
