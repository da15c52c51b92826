"""Room at the nodes of an instance: `agents.scheduler.groups` over arrays."""

from control.simulator.serving.autoregressive.records import CHOSEN, PREFILL
from control.simulator.serving.kernel.compiled import compiled
from control.simulator.serving.kernel.lists import dequeue
from control.simulator.serving.kernel.world import World
from policies import lanes

_joins = compiled(lanes.joins)


@compiled
def blocks_of(w: World, instance: int, tokens: int) -> int:
    size = w.pipelines[w.instances[instance].model].block_tokens
    return int(-(-tokens // size))


@compiled
def could_ever_fit(w: World, instance: int, prompt: int, made: int, output: int) -> bool:
    """Whether its nodes could ever hold its part of a request, of whose output some is made."""
    is_prefill = w.instances[instance].role == PREFILL
    most = blocks_of(w, instance, prompt + made if is_prefill else prompt + output - 1)
    pipeline = w.pipelines[w.instances[instance].model]
    for stage in range(pipeline.depth):
        at = pipeline.stage_at + stage
        fits = False
        for node in range(w.stages[at].node, w.stages[at + 1].node):
            fits = fits or w.limits[pipeline.limit_at + node].blocks >= most
        if not fits:
            return False
    return True


@compiled
def seat_of(w: World, group: int) -> int:
    """Where the counts of a group begin."""
    instance = w.instances[w.groups[group].instance]
    nodes = w.pipelines[instance.model].nodes
    return int(instance.seat_at + (group - instance.group_at) * nodes)


@compiled
def place(w: World, group: int, blocks: int, most: int) -> bool:
    """Whether there is room for one more of the group; the nodes for it are then in the scratch."""
    instance = w.instances[w.groups[group].instance]
    pipeline = w.pipelines[instance.model]
    seat = seat_of(w, group)
    for stage in range(pipeline.depth):
        at = pipeline.stage_at + stage
        best, least = -1, 0.0
        for node in range(w.stages[at].node, w.stages[at + 1].node):
            limit = pipeline.limit_at + node
            if w.limits[limit].blocks < most or w.nodes[instance.node_at + node].free_blocks < blocks:
                continue
            count = w.seats[seat + node].members
            if count >= w.limits[limit].batch_cap:
                continue
            quotient = (count + 1) / w.limits[limit].weight
            if best < 0 or quotient < least:
                best, least = node, quotient
        if best < 0:
            return False
        w.scratch[CHOSEN, stage] = best
    return True


@compiled
def place_prompt(w: World, instance: int, blocks: int, tokens: int) -> bool:
    """Whether each stage has blocks for a prompt of so many tokens; the node of each that will have computed it first
    is then in the scratch."""
    own = w.instances[instance]
    pipeline = w.pipelines[own.model]
    for stage in range(pipeline.depth):
        at = pipeline.stage_at + stage
        best, least = -1, 0.0
        for node in range(w.stages[at].node, w.stages[at + 1].node):
            if w.nodes[own.node_at + node].free_blocks < blocks:
                continue
            quotient = (w.nodes[own.node_at + node].pending + tokens) / w.limits[pipeline.limit_at + node].weight
            if best < 0 or quotient < least:
                best, least = node, quotient
        if best < 0:
            return False
        w.scratch[CHOSEN, stage] = best
    return True


@compiled
def takes_prompt(w: World, lane: int, tokens: int) -> bool:
    """Whether the prompt goes in one step with what the lane has at the nodes in the scratch; alone it may take
    several."""
    pipeline = w.pipelines[w.instances[w.groups[lane].instance].model]
    seat = seat_of(w, lane)
    for stage in range(pipeline.depth):
        node = w.scratch[CHOSEN, stage]
        prompts, limit = w.seats[seat + node].prompts, pipeline.limit_at + node
        if prompts and (
            prompts >= w.limits[limit].batch_cap
            or not _joins(tokens, w.seats[seat + node].tokens, w.limits[limit].chunk)
        ):
            return False
    return True


@compiled
def count_prompt(w: World, row: int, sign: int) -> None:
    """Count its prompt among what its nodes are to compute, or no more, where it is in a lane."""
    leg = w.legs[row]
    instance = w.instances[leg.instance]
    if instance.role != PREFILL:
        return
    tokens = sign * w.sequences[row].tokens
    w.groups[leg.group].tokens += tokens
    seat = seat_of(w, leg.group)
    for stage in range(w.pipelines[instance.model].depth):
        node = w.seated[row, stage]
        w.seats[seat + node].tokens += tokens
        w.seats[seat + node].prompts += sign
        w.nodes[instance.node_at + node].pending += tokens


@compiled
def take(w: World, row: int, blocks: int) -> None:
    """Take blocks for a sequence on each of its nodes; below 0: give back."""
    instance = w.instances[w.legs[row].instance]
    for stage in range(w.pipelines[instance.model].depth):
        w.nodes[instance.node_at + w.seated[row, stage]].free_blocks -= blocks


@compiled
def count(w: World, row: int, change: int) -> None:
    """Count one more, or one less, of its group at each of its nodes."""
    leg = w.legs[row]
    seat = seat_of(w, leg.group)
    for stage in range(w.pipelines[w.instances[leg.instance].model].depth):
        w.seats[seat + w.seated[row, stage]].members += change
    w.groups[leg.group].size += change


@compiled
def stop(w: World, row: int) -> None:
    """Give back what a running sequence holds."""
    leg, sequence = w.legs[row], w.sequences[row]
    count(w, row, -1)
    take(w, row, -sequence.blocks)
    if not sequence.sampled:
        count_prompt(w, row, -1)
    dequeue(w, w.group_ends[leg.group], row)
    w.instances[leg.instance].running -= 1
    leg.group = -1
    sequence.run = 0
    sequence.blocks = 0
