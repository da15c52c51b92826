"""Requests that wait in one queue for each app are bound to instances that have a place for them (`policies.slack`)."""

import numpy as np

from control.simulator.serving.autoregressive.records import PREFILL
from control.simulator.serving.kernel.calls import attempt, leave_queue, park
from control.simulator.serving.kernel.compiled import compiled
from control.simulator.serving.kernel.heap import look_at
from control.simulator.serving.kernel.world import Limits, World
from policies import slack


@compiled
def bind_waiting(w: World, limits: Limits, number: int, now_s: float) -> None:
    """Bind what can be bound of the app now, and note when to look again."""
    app, queue = w.apps[number], w.queues[number]
    app.look_s = np.inf
    first, end = app.member_at, app.member_at + app.members
    for at in range(first, end):
        _note_place(w, at, now_s)
    while True:
        call, member = slack.next_binding(
            w.members, first, end, w.latency_s, w.busy_s, w.waiting, queue, now_s, limits.lead_s
        )
        if call < 0:
            break
        row = w.waiting[call]
        if not _choose_others(w, member):
            w.members[member].has_place = False  # the rest of its route is full
            w.members[member].step_s = -np.inf
            continue
        slack.take(w.members[member], w.busy_s, row.tokens, row.deadline_s, now_s)
        leave_queue(w, call)
        w.calls[call].route = w.candidates[member].route
        w.state[0].pending = call
        attempt(w, limits, call, w.chosen[: w.routes[w.calls[call].route].legs], now_s)
        if w.state[0].pending >= 0:  # it was refused, and comes again
            return
    if w.picked[number].made < 0:  # nobody can be used: calls wait for that, not for ever
        while queue.head >= 0 or queue.late_head >= 0:
            call = queue.head if queue.head >= 0 else queue.late_head
            leave_queue(w, call)
            park(w, limits, call, now_s)
    elif queue.head >= 0 or queue.late_head >= 0:
        look_at(w, number, slack.next_look_s(w.members, first, end, now_s, limits.lead_s))


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
        member.free_s = min(member.free_s, now_s)
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
def _choose_others(w: World, member: int) -> bool:
    """Choose an instance for every leg of the route that the member begins; False where one is full.

    The plan's flows from its zone are quotas: the one that is furthest behind its due is next. In its zone the instance
    with the least load for its capacity takes the leg."""
    candidate = w.candidates[member]
    route = w.routes[candidate.route]
    w.chosen[0] = candidate.instance
    flow = _next_flow(w, candidate.route, candidate.zone)
    for leg in range(1, route.legs):
        found = _least_loaded(w, route.leg_at + leg, w.flow_zones[flow, leg] if flow >= 0 else -1)
        if found < 0:
            found = _least_loaded(w, route.leg_at + leg, -1)
        if found < 0:
            return False
        w.chosen[leg] = found
    if flow >= 0:
        w.flows[flow].credit -= 1.0
    return True


@compiled
def _next_flow(w: World, number: int, zone: int) -> int:
    """The flow of the route from the zone that is furthest behind, after each has gained its share of one request; -1:
    the plan has none."""
    route = w.routes[number]
    total = 0.0
    for flow in range(route.flow_at, route.flow_at + route.flows):
        if w.flow_zones[flow, 0] == zone:
            total += w.flows[flow].rate
    best = -1
    for flow in range(route.flow_at, route.flow_at + route.flows):
        own = w.flows[flow]
        if w.flow_zones[flow, 0] == zone and own.rate > 0:
            own.credit += own.rate / total
            if best < 0 or own.credit > w.flows[best].credit:
                best = flow
    return best


@compiled
def _least_loaded(w: World, leg: int, zone: int) -> int:
    """The instance for a leg with the least load for its capacity, in the zone or anywhere (-1); -1: all are full."""
    best, least = -1, np.inf
    of_route = w.route_legs[leg]
    for at in range(of_route.server_at, of_route.server_at + of_route.servers):
        server = w.servers[at]
        if server.weight <= 0 or (zone >= 0 and server.zone != zone):
            continue
        own = w.instances[server.instance]
        load = (own.held + 1) / server.weight
        if own.room > 0 and load < least:
            best, least = server.instance, load
    return best
