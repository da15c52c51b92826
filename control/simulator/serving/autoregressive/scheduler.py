"""What an instance's scheduler does at each event: `agents.scheduler.core` over arrays."""

import numpy as np

from control.simulator.serving.autoregressive.places import (
    blocks_of,
    count,
    count_prompt,
    place,
    place_prompt,
    seat_of,
    stop,
    take,
    takes_prompt,
)
from control.simulator.serving.autoregressive.records import (
    ALL_STAGES,
    CHOSEN,
    CHUNKS,
    COMING,
    HELD,
    OFFERED,
    ORDER_OF_GROUPS,
    PIECE_BITS,
    PREFILL,
    STAGE_BITS,
    Chunk,
)
from control.simulator.serving.autoregressive.steps import clear_work, pass_through
from control.simulator.serving.kernel.compiled import compiled
from control.simulator.serving.kernel.heap import push, wake
from control.simulator.serving.kernel.lists import dequeue, enqueue
from control.simulator.serving.kernel.records import AWAITING, READY, SEND, STEP
from control.simulator.serving.kernel.world import Limits, World
from policies import lanes
from templates_lib.values.placement import HAND_OFF_PIECES

_may_join = compiled(lanes.may_join)


@compiled
def leave(w: World, row: int) -> None:
    """Give back what a leg holds of its pipeline, and its place in the queue."""
    leg = w.legs[row]
    if w.sequences[row].run:
        stop(w, row)
    elif leg.phase in (READY, OFFERED):
        dequeue(w, w.queue_ends[leg.instance], row)


@compiled
def order_steps(w: World, limits: Limits, instance: int, now_s: float) -> None:
    """Admit what fits, and launch a step of every group that has none under way and something to do."""
    _admit(w, limits, instance, now_s)
    own = w.instances[instance]
    for group in range(own.group_at, own.group_at + own.groups):
        if w.groups[group].flight == 0 and _fill(w, instance, group):
            _launch(w, limits, instance, group, now_s)


@compiled
def _admit(w: World, limits: Limits, instance: int, now_s: float) -> None:
    """Admit what waits, first come, first served."""
    own, waiting = w.instances[instance], w.queue_ends[instance]
    while waiting.head >= 0:
        row = waiting.head
        leg, sequence = w.legs[row], w.sequences[row]
        blocks = blocks_of(w, instance, sequence.tokens)
        if own.role == PREFILL:
            group = _lane_with_room(w, instance, blocks, sequence.tokens)
        else:
            group = _group_with_room(w, instance, blocks, blocks_of(w, instance, sequence.most))
        if group < 0:
            return
        dequeue(w, waiting, row)
        w.state[0].runs += 1
        leg.group = group
        sequence.run = w.state[0].runs
        sequence.blocks = blocks
        sequence.position = 0
        sequence.sampled = False
        sequence.flight = 0
        for stage in range(w.pipelines[own.model].depth):
            w.seated[row, stage] = w.scratch[CHOSEN, stage]
        count(w, row, 1)
        take(w, row, blocks)
        count_prompt(w, row, 1)
        enqueue(w, w.group_ends[group], row)
        own.running += 1
        if leg.phase == OFFERED:
            _accept(w, limits, row, now_s)


@compiled
def _accept(w: World, limits: Limits, row: int, now_s: float) -> None:
    """Have the prefill leg send: there is room."""
    leg, sequence = w.legs[row], w.sequences[row]
    leg.phase = COMING
    sequence.position = sequence.tokens - 1
    sequence.sampled = True
    sequence.awaited = 1 if w.legs[sequence.peer].phase == HELD else 2
    request = w.calls[row // w.places.shape[1]].request
    w.fates[request].accepted_s = now_s
    if sends(w, sequence.peer):
        begin_sending(w, limits, request, row, now_s)


@compiled
def _group_with_room(w: World, instance: int, blocks: int, most: int) -> int:
    """The smallest group that has room, its nodes in the scratch; -1: none."""
    first = w.instances[instance].group_at
    groups = w.instances[instance].groups
    ranked = w.scratch[ORDER_OF_GROUPS]
    for k in range(groups):
        at = k
        while at > 0 and w.groups[first + ranked[at - 1]].size > w.groups[first + k].size:
            ranked[at] = ranked[at - 1]
            at -= 1
        ranked[at] = k
    for k in range(groups):
        group = int(first + ranked[k])
        if place(w, group, blocks, most):
            return group
    return -1


@compiled
def join_next_step(w: World, row: int) -> None:
    """Have the leg, which waits in its group for a first step, go over to the group whose step is next, where that has
    room for it at the same nodes and is about as small."""
    leg = w.legs[row]
    own = w.instances[leg.instance]
    best, size = leg.group, w.groups[leg.group].size
    for group in range(own.group_at, own.group_at + own.groups):
        is_sooner = w.groups[group].flight < w.groups[best].flight
        if is_sooner and _may_join(w.groups[group].size, size) and _has_seats(w, row, group):
            best = group
    if best != leg.group:
        count(w, row, -1)
        dequeue(w, w.group_ends[leg.group], row)
        leg.group = best
        count(w, row, 1)
        enqueue(w, w.group_ends[best], row)


@compiled
def _has_seats(w: World, row: int, group: int) -> bool:
    """Whether the group has room for one more at the nodes that the leg is at."""
    pipeline = w.pipelines[w.instances[w.legs[row].instance].model]
    seat = seat_of(w, group)
    for stage in range(pipeline.depth):
        node = w.seated[row, stage]
        if w.seats[seat + node].members >= w.limits[pipeline.limit_at + node].batch_cap:
            return False
    return True


@compiled
def _lane_with_room(w: World, instance: int, blocks: int, tokens: int) -> int:
    """Of the lanes without a step under way that take such a prompt the fullest, its nodes in the scratch; -1: none."""
    first = w.instances[instance].group_at
    best = -1
    if not place_prompt(w, instance, blocks, tokens):
        return -1
    for lane in range(first, first + w.instances[instance].groups):
        is_fuller = w.groups[lane].flight == 0 and (best < 0 or w.groups[lane].tokens > w.groups[best].tokens)
        if is_fuller and takes_prompt(w, lane, tokens):
            best = lane
    return int(best)


@compiled
def _fill(w: World, instance: int, group: int) -> bool:
    """Note what each member does in the next step and at which nodes; whether there is anything."""
    own = w.instances[instance]
    pipeline = w.pipelines[own.model]
    depth, nodes, chunks = pipeline.depth, pipeline.nodes, w.scratch[CHUNKS]
    row = w.group_ends[group].head
    if row < 0:
        return False
    clear_work(w, nodes)
    for node in range(nodes):
        chunks[node] = w.limits[pipeline.limit_at + node].chunk
    anything = False
    while row >= 0:
        sequence = w.sequences[row]
        tokens = 0
        if w.legs[row].phase == READY:
            tokens = sequence.tokens - sequence.position
            if not sequence.sampled:
                for stage in range(depth):
                    tokens = min(tokens, chunks[w.seated[row, stage]])
            if tokens and not _grow(w, instance, row, sequence.position + tokens):
                tokens = 0
        if tokens:
            anything = True
            sequence.count = tokens
            sequence.flight = w.state[0].steps + 1
            _note(w, row, depth, tokens)
            if not sequence.sampled and own.role != PREFILL:
                for stage in range(depth):
                    chunks[w.seated[row, stage]] -= tokens
        row = w.queue_links[row].next
    return anything


@compiled
def _note(w: World, row: int, depth: int, tokens: int) -> None:
    sequence = w.sequences[row]
    position = sequence.position
    for stage in range(depth):
        node = w.seated[row, stage]
        work = w.work[node]
        if sequence.sampled:
            work.requests += 1.0
            work.cached += position
        else:
            work.prompt_tokens += tokens
            work.prompt_context += tokens * (position + (tokens - 1) * 0.5)
        if position + tokens == sequence.tokens:
            work.sampled += 1.0
        if stage:
            w.feeds[w.seated[row, stage - 1], node] = True


@compiled
def _launch(w: World, limits: Limits, instance: int, group: int, now_s: float) -> None:
    own = w.instances[instance]
    step = w.state[0].steps + 1
    w.state[0].steps = step
    w.groups[group].flight = step
    end_s = pass_through(w, instance, now_s, limits.use_interval_s)
    push(w, end_s, STEP, group, group, step)
    row = w.group_ends[group].head
    while row >= 0:
        sequence = w.sequences[row]
        if sequence.flight == step and own.role == PREFILL and limits.streams_kv:
            _stream(w, row, now_s)
        if sequence.flight == step and not sequence.sampled:
            request = w.calls[row // w.places.shape[1]].request
            fate = w.fates[request]
            if np.isnan(fate.queued_s):
                fate.queued_s = w.work[w.seated[row, 0]].start_s - w.arrival_s[request]
        row = w.queue_links[row].next


@compiled
def _stream(w: World, row: int, now_s: float) -> None:
    """Note when each stage computes a chunk of a prompt, which can be sent then; with the first one ask for room at the
    instance that takes over, unless the answer ends with its first token."""
    sequence = w.sequences[row]
    if sequence.peer < 0:
        return
    stages = w.seated.shape[1]
    request = w.calls[row // w.places.shape[1]].request
    for stage in range(w.pipelines[w.instances[w.legs[row].instance].model].depth):
        chunk, work = w.chunks[row * stages + stage], w.work[w.seated[row, stage]]
        chunk.start_s = work.start_s
        chunk.end_s = work.out_s
        if chunk.piece:
            send_piece(w, request, sequence.peer, stage, chunk.piece - 1, chunk.from_s)
    if sequence.position == 0 and sequence.tokens + 1 < sequence.end:
        offer(w, sequence.peer, now_s)


@compiled
def offer(w: World, row: int, now_s: float) -> None:
    """Ask for room for the leg `row`, which takes over, or say that the first token is known."""
    target = w.legs[row]
    if not w.instances[target.instance].alive:
        return
    wake(w, target.instance, now_s)
    if target.phase == AWAITING:
        target.phase = OFFERED
        w.sequences[row].tokens += 1
        enqueue(w, w.queue_ends[target.instance], row)


@compiled
def begin_sending(w: World, limits: Limits, request: int, row: int, now_s: float) -> None:
    """Have each stage of the other leg send its part to the leg `row`: at once, or as it is computed."""
    sequence = w.sequences[row]
    pipeline = w.pipelines[w.instances[w.legs[sequence.peer].instance].model]
    sequence.unsent = pipeline.depth
    sequence.there_s = now_s
    if not limits.streams_kv:
        _push_send(w, now_s, request, row, ALL_STAGES, 0)
        return
    for stage in range(pipeline.depth):
        send_piece(w, request, row, stage, 0, now_s + pipeline.hand_off_s)


@compiled
def send_piece(w: World, request: int, row: int, stage: int, piece: int, from_s: float) -> None:
    """Have a stage of the other leg send a piece to the leg `row`, from `from_s` on: once it is computed."""
    source = w.sequences[row].peer
    chunk = w.chunks[source * w.seated.shape[1] + stage]
    computed_s = _computed_s(w, source, chunk, w.sequences[row].position * (piece + 1) / HAND_OFF_PIECES)
    chunk.piece = 0
    if computed_s == np.inf:
        chunk.piece = piece + 1
        chunk.from_s = from_s
    else:
        _push_send(w, max(from_s, computed_s), request, row, stage, piece)


@compiled
def _push_send(w: World, at_s: float, request: int, row: int, stage: int, piece: int) -> None:
    subject = (request << STAGE_BITS) | stage
    push(w, at_s, SEND, subject, row, (w.sequences[row].run << STAGE_BITS | stage) << PIECE_BITS | piece)


@compiled
def _computed_s(w: World, row: int, chunk: Chunk, tokens: float) -> float:
    """When so many tokens of the prompt of the leg `row` are computed at a stage; infinite: in a step to come."""
    sequence = w.sequences[row]
    if w.legs[row].phase == HELD or tokens <= sequence.position:
        return -np.inf
    if sequence.flight == 0 or tokens > sequence.position + sequence.count:
        return np.inf
    share = (tokens - sequence.position) / sequence.count
    return float(chunk.start_s + (chunk.end_s - chunk.start_s) * share)


@compiled
def sends(w: World, row: int) -> bool:
    """Whether the leg has a KV cache for the other, or is about to."""
    leg = w.legs[row]
    is_computed = leg.phase == HELD or (leg.phase == READY and w.sequences[row].run > 0)
    return bool(is_computed and w.instances[leg.instance].alive)


@compiled
def _grow(w: World, instance: int, row: int, tokens: int) -> bool:
    """Take blocks for so many tokens, at the cost of younger requests; False where older ones hold them."""
    sequence = w.sequences[row]
    needed = blocks_of(w, instance, tokens) - sequence.blocks
    if needed <= 0:
        return True
    own = w.instances[instance]
    depth = w.pipelines[own.model].depth
    is_short = False
    for stage in range(depth):
        is_short = is_short or w.nodes[own.node_at + w.seated[row, stage]].free_blocks < needed
    if is_short and not _make_room(w, instance, row, needed):
        return False
    take(w, row, needed)
    sequence.blocks += needed
    return True


@compiled
def _make_room(w: World, instance: int, row: int, needed: int) -> bool:
    """Preempt younger ones, the youngest first, at each of its nodes in turn; nobody where that would not do."""
    own = w.instances[instance]
    depth = w.pipelines[own.model].depth
    victims = np.empty(w.instances[instance].running, np.int64)
    found = 0
    for stage in range(depth):
        node = w.seated[row, stage]
        short = needed - w.nodes[own.node_at + node].free_blocks
        for v in range(found):
            if w.seated[victims[v], stage] == node:
                short -= w.sequences[victims[v]].blocks
        younger_than = 1 << 62
        while short > 0:
            victim = _youngest(w, instance, younger_than)
            if victim < 0 or w.legs[victim].arrival <= w.legs[row].arrival:
                return False
            younger_than = w.legs[victim].arrival
            is_found = False
            for v in range(found):
                is_found = is_found or victims[v] == victim
            if is_found or w.legs[victim].phase != READY or w.seated[victim, stage] != node:
                continue
            victims[found] = victim
            found += 1
            short -= w.sequences[victim].blocks
    for v in range(found):
        stop(w, victims[v])
        enqueue(w, w.queue_ends[instance], victims[v])
        w.fates[w.calls[victims[v] // w.places.shape[1]].request].preemptions += 1
    return True


@compiled
def _youngest(w: World, instance: int, younger_than: int) -> int:
    """The running request that came last before `younger_than`; -1: none."""
    first = w.instances[instance].group_at
    best, latest = -1, -1
    for group in range(first, first + w.instances[instance].groups):
        row = w.group_ends[group].tail
        while row >= 0 and w.legs[row].arrival >= younger_than:
            row = w.queue_links[row].previous
        if row >= 0 and w.legs[row].arrival > latest:
            best, latest = row, w.legs[row].arrival
    return best
