"""What an instance's scheduler does at each event: `agents.scheduler.core` over arrays."""

import numpy as np

from control.simulator.serving.kernel.columns import (
    A_PARKED,
    ABSENT,
    C_REQUEST,
    COMING,
    COMPUTED,
    G_FLIGHT,
    G_HEAD,
    G_SIZE,
    G_TAIL,
    G_TOKENS,
    HELD,
    I_ALIVE,
    I_ALL,
    I_APP,
    I_DUE,
    I_GROUP_AT,
    I_GROUPS,
    I_LANES,
    I_NODE_AT,
    I_PIPELINE,
    I_ROOM,
    I_RUNNING,
    I_WAIT_HEAD,
    L_CHUNK,
    O_PREEMPTIONS,
    OF_ACCEPTED_S,
    OF_QUEUED_S,
    OFFERED,
    ORDER,
    P_DEPTH,
    P_NODE_AT,
    P_NODES,
    R_ROOM,
    R_RUNS,
    R_STEPS,
    R_WAKE,
    R_WAKES,
    S_ARRIVAL,
    S_BLOCKS,
    S_COUNT,
    S_FLIGHT,
    S_GROUP,
    S_INSTANCE,
    S_MOST,
    S_NEXT,
    S_NODES,
    S_PHASE,
    S_POSITION,
    S_PREVIOUS,
    S_RUN,
    S_SAMPLED,
    S_TOKENS,
    SEND,
    STEP,
    W_CACHED,
    W_PROMPT_CONTEXT,
    W_PROMPT_TOKENS,
    W_REQUESTS,
    W_SAMPLED,
    W_START_S,
)
from control.simulator.serving.kernel.compiled import compiled
from control.simulator.serving.kernel.heap import push
from control.simulator.serving.kernel.lists import enter_group, leave_instance, leave_queue, wait
from control.simulator.serving.kernel.places import (
    CHOSEN,
    CHUNKS,
    ORDER_OF_GROUPS,
    blocks_of,
    count,
    count_prompt,
    place,
    place_prompt,
    stop,
    take,
)
from control.simulator.serving.kernel.steps import clear_work, pass_through
from control.simulator.serving.kernel.world import Ints, Limits, World


@compiled
def wake(w: World, instance: int, now_s: float) -> None:
    """Have it order what there is to do, once for all that happens now."""
    row = w.instances[instance]
    if row[I_ALIVE] and not row[I_DUE]:
        row[I_DUE] = 1
        push(w, now_s, ORDER, instance, instance, 0)


@compiled
def forget(w: World, row: int, now_s: float) -> None:
    """It is over at its instance."""
    sequence = w.sequences[row]
    instance = sequence[S_INSTANCE]
    if sequence[S_RUN]:
        stop(w, row)
    elif sequence[S_PHASE] in (OFFERED, COMPUTED):
        leave_queue(w.sequences, w.instances[instance], row)
    leave_instance(w.sequences, w.instances[instance], row)
    sequence[S_PHASE] = ABSENT
    wake(w, instance, now_s)


@compiled
def order(w: World, limits: Limits, instance: int, now_s: float) -> None:
    """Admit what fits, and launch a step of every group that has none under way and something to do."""
    _admit(w, instance, now_s)
    row = w.instances[instance]
    for group in range(row[I_GROUP_AT], row[I_GROUP_AT] + row[I_GROUPS]):
        if w.groups[group, G_FLIGHT] == 0 and _fill(w, instance, group):
            _launch(w, limits, instance, group, now_s)
    room = limits.max_waiting - (row[I_ALL] - row[I_RUNNING])
    if room > 0 and row[I_ROOM] <= 0:
        _tell_room(w, row, room)


@compiled
def _tell_room(w: World, instance: Ints, room: int) -> None:
    """Gateways believe that it is full, and it is not."""
    app = instance[I_APP]
    instance[I_ROOM] = room
    w.registers[R_ROOM] = w.registers[R_WAKE] = app
    w.registers[R_WAKES] = w.apps[app, A_PARKED]


@compiled
def _admit(w: World, instance: int, now_s: float) -> None:
    """First come, first served."""
    own = w.instances[instance]
    while own[I_WAIT_HEAD] >= 0:
        row = own[I_WAIT_HEAD]
        sequence = w.sequences[row]
        blocks = blocks_of(w, instance, sequence[S_TOKENS])
        if own[I_LANES]:
            group = _lane_with_room(w, instance, blocks, sequence[S_TOKENS])
        else:
            group = _group_with_room(w, instance, blocks, blocks_of(w, instance, sequence[S_MOST]))
        if group < 0:
            return
        leave_queue(w.sequences, own, row)
        w.registers[R_RUNS] += 1
        sequence[S_RUN] = w.registers[R_RUNS]
        sequence[S_GROUP] = group
        sequence[S_BLOCKS] = blocks
        sequence[S_POSITION] = 0
        sequence[S_SAMPLED] = 0
        sequence[S_FLIGHT] = 0
        for stage in range(w.pipelines[own[I_PIPELINE], P_DEPTH]):
            sequence[S_NODES + stage] = w.scratch[CHOSEN, stage]
        count(w, row, 1)
        take(w, row, blocks)
        count_prompt(w, row, 1)
        enter_group(w.sequences, w.groups[group], row)
        own[I_RUNNING] += 1
        if sequence[S_PHASE] == OFFERED:
            _accept(w, row, now_s)


@compiled
def _accept(w: World, row: int, now_s: float) -> None:
    """The prefill leg may send."""
    sequence = w.sequences[row]
    sequence[S_PHASE] = COMING
    sequence[S_POSITION] = sequence[S_TOKENS] - 1
    sequence[S_SAMPLED] = 1
    call = row >> 1
    request = w.calls[call, C_REQUEST]
    w.times_s[request, OF_ACCEPTED_S] = now_s
    source = w.sequences[row - 1]
    if source[S_PHASE] == HELD and w.instances[source[S_INSTANCE], I_ALIVE]:
        push(w, now_s, SEND, request, call, sequence[S_RUN])


@compiled
def _group_with_room(w: World, instance: int, blocks: int, most: int) -> int:
    """The smallest group that has room, its nodes in the scratch; -1: none."""
    first = w.instances[instance, I_GROUP_AT]
    groups = w.instances[instance, I_GROUPS]
    ranked = w.scratch[ORDER_OF_GROUPS]
    for k in range(groups):
        at = k
        while at > 0 and w.groups[first + ranked[at - 1], G_SIZE] > w.groups[first + k, G_SIZE]:
            ranked[at] = ranked[at - 1]
            at -= 1
        ranked[at] = k
    for k in range(groups):
        group = int(first + ranked[k])
        if place(w, group, blocks, most):
            return group
    return -1


@compiled
def _lane_with_room(w: World, instance: int, blocks: int, tokens: int) -> int:
    """The lane without a step under way that has the fewest prompt tokens, its nodes in the scratch; -1: none."""
    first = w.instances[instance, I_GROUP_AT]
    best = -1
    for lane in range(first, first + w.instances[instance, I_GROUPS]):
        if w.groups[lane, G_FLIGHT] == 0 and (best < 0 or w.groups[lane, G_TOKENS] < w.groups[best, G_TOKENS]):
            best = lane
    if best < 0 or not place_prompt(w, best, blocks, tokens):
        return -1
    return int(best)


@compiled
def _fill(w: World, instance: int, group: int) -> bool:
    """Note what each member does in the next step and at which nodes; whether there is anything."""
    own = w.instances[instance]
    pipeline = w.pipelines[own[I_PIPELINE]]
    depth, nodes, chunks = pipeline[P_DEPTH], pipeline[P_NODES], w.scratch[CHUNKS]
    row = w.groups[group, G_HEAD]
    if row < 0:
        return False
    clear_work(w, nodes)
    for node in range(nodes):
        chunks[node] = w.limits[pipeline[P_NODE_AT] + node, L_CHUNK]
    anything = False
    while row >= 0:
        sequence = w.sequences[row]
        tokens = 0
        if sequence[S_PHASE] == COMPUTED:
            tokens = sequence[S_TOKENS] - sequence[S_POSITION]
            if not sequence[S_SAMPLED]:
                for stage in range(depth):
                    tokens = min(tokens, chunks[sequence[S_NODES + stage]])
            if tokens and not _grow(w, instance, row, sequence[S_POSITION] + tokens):
                tokens = 0
        if tokens:
            anything = True
            sequence[S_COUNT] = tokens
            sequence[S_FLIGHT] = w.registers[R_STEPS] + 1
            _note(w, sequence, depth, tokens)
            if not sequence[S_SAMPLED] and not own[I_LANES]:
                for stage in range(depth):
                    chunks[sequence[S_NODES + stage]] -= tokens
        row = sequence[S_NEXT]
    return anything


@compiled
def _note(w: World, sequence: Ints, depth: int, tokens: int) -> None:
    position = sequence[S_POSITION]
    for stage in range(depth):
        node = sequence[S_NODES + stage]
        work = w.work[node]
        if sequence[S_SAMPLED]:
            work[W_REQUESTS] += 1.0
            work[W_CACHED] += position
        else:
            work[W_PROMPT_TOKENS] += tokens
            work[W_PROMPT_CONTEXT] += tokens * (position + (tokens - 1) * 0.5)
        if position + tokens == sequence[S_TOKENS]:
            work[W_SAMPLED] += 1.0
        if stage:
            w.feeds[sequence[S_NODES + stage - 1], node] = True


@compiled
def _launch(w: World, limits: Limits, instance: int, group: int, now_s: float) -> None:
    step = w.registers[R_STEPS] + 1
    w.registers[R_STEPS] = step
    w.groups[group, G_FLIGHT] = step
    end_s = pass_through(w, instance, now_s, limits.use_interval_s)
    push(w, end_s, STEP, group, group, step)
    row = w.groups[group, G_HEAD]
    while row >= 0:
        sequence = w.sequences[row]
        if sequence[S_FLIGHT] == step and not sequence[S_SAMPLED]:
            request = w.calls[row >> 1, C_REQUEST]
            if np.isnan(w.times_s[request, OF_QUEUED_S]):
                w.times_s[request, OF_QUEUED_S] = w.work[sequence[S_NODES], W_START_S] - w.arrival_s[request]
        row = sequence[S_NEXT]


@compiled
def _grow(w: World, instance: int, row: int, tokens: int) -> bool:
    """Blocks for so many tokens, at the cost of younger requests; False where older ones hold them."""
    sequence = w.sequences[row]
    needed = blocks_of(w, instance, tokens) - sequence[S_BLOCKS]
    if needed <= 0:
        return True
    own = w.instances[instance]
    depth = w.pipelines[own[I_PIPELINE], P_DEPTH]
    is_short = False
    for stage in range(depth):
        is_short = is_short or w.free_blocks[own[I_NODE_AT] + sequence[S_NODES + stage]] < needed
    if is_short and not _make_room(w, instance, row, needed):
        return False
    take(w, row, needed)
    sequence[S_BLOCKS] += needed
    return True


@compiled
def _make_room(w: World, instance: int, row: int, needed: int) -> bool:
    """Preempt younger ones, the youngest first, at each of its nodes in turn; nobody where that would not do."""
    sequence = w.sequences[row]
    own = w.instances[instance]
    depth = w.pipelines[own[I_PIPELINE], P_DEPTH]
    victims = np.empty(w.instances[instance, I_RUNNING], np.int64)
    found = 0
    for stage in range(depth):
        node = sequence[S_NODES + stage]
        short = needed - w.free_blocks[own[I_NODE_AT] + node]
        for v in range(found):
            if w.sequences[victims[v], S_NODES + stage] == node:
                short -= w.sequences[victims[v], S_BLOCKS]
        younger_than = 1 << 62
        while short > 0:
            victim = _youngest(w, instance, younger_than)
            if victim < 0 or w.sequences[victim, S_ARRIVAL] <= sequence[S_ARRIVAL]:
                return False
            younger_than = w.sequences[victim, S_ARRIVAL]
            is_found = False
            for v in range(found):
                is_found = is_found or victims[v] == victim
            if is_found or w.sequences[victim, S_PHASE] != COMPUTED or w.sequences[victim, S_NODES + stage] != node:
                continue
            victims[found] = victim
            found += 1
            short -= w.sequences[victim, S_BLOCKS]
    for v in range(found):
        stop(w, victims[v])
        wait(w.sequences, own, victims[v])
        w.outcomes[w.calls[victims[v] >> 1, C_REQUEST], O_PREEMPTIONS] += 1
    return True


@compiled
def _youngest(w: World, instance: int, younger_than: int) -> int:
    """The running request that came last before `younger_than`; -1: none."""
    first = w.instances[instance, I_GROUP_AT]
    best, latest = -1, -1
    for group in range(first, first + w.instances[instance, I_GROUPS]):
        row = w.groups[group, G_TAIL]
        while row >= 0 and w.sequences[row, S_ARRIVAL] >= younger_than:
            row = w.sequences[row, S_PREVIOUS]
        if row >= 0 and w.sequences[row, S_ARRIVAL] > latest:
            best, latest = row, w.sequences[row, S_ARRIVAL]
    return best
