"""Room at the nodes of an instance: `agents.scheduler.groups` over arrays."""

from control.simulator.serving.kernel.columns import (
    G_INSTANCE,
    G_SIZE,
    G_TOKENS,
    I_GROUP_AT,
    I_LANES,
    I_MEMBER_AT,
    I_NODE_AT,
    I_PIPELINE,
    I_RUNNING,
    L_BLOCKS,
    L_CAP,
    L_CHUNK,
    LF_WEIGHT,
    P_BLOCK_TOKENS,
    P_DEPTH,
    P_NODE_AT,
    P_NODES,
    P_STAGE_AT,
    S_BLOCKS,
    S_GROUP,
    S_NODES,
    S_RUN,
    S_SAMPLED,
    S_TOKENS,
    ST_NODE,
)
from control.simulator.serving.kernel.compiled import compiled
from control.simulator.serving.kernel.lists import leave_group
from control.simulator.serving.kernel.world import World
from policies import lanes

CHUNKS = 0
CHOSEN = 1
ORDER_OF_GROUPS = 2

_joins = compiled(lanes.joins)


@compiled
def blocks_of(w: World, instance: int, tokens: int) -> int:
    size = w.pipelines[w.instances[instance, I_PIPELINE], P_BLOCK_TOKENS]
    return int(-(-tokens // size))


@compiled
def could_ever_fit(w: World, instance: int, most_tokens: int) -> bool:
    most = blocks_of(w, instance, most_tokens)
    pipeline = w.pipelines[w.instances[instance, I_PIPELINE]]
    for stage in range(pipeline[P_DEPTH]):
        at = pipeline[P_STAGE_AT] + stage
        fits = False
        for node in range(w.stages[at, ST_NODE], w.stages[at + 1, ST_NODE]):
            fits = fits or w.limits[pipeline[P_NODE_AT] + node, L_BLOCKS] >= most
        if not fits:
            return False
    return True


@compiled
def members_at(w: World, group: int) -> int:
    """Where the counts of a group begin."""
    instance = w.instances[w.groups[group, G_INSTANCE]]
    nodes = w.pipelines[instance[I_PIPELINE], P_NODES]
    return int(instance[I_MEMBER_AT] + (group - instance[I_GROUP_AT]) * nodes)


@compiled
def place(w: World, group: int, blocks: int, most: int) -> bool:
    """Whether there is room for one more of the group; the nodes for it are then in the scratch."""
    instance = w.instances[w.groups[group, G_INSTANCE]]
    pipeline = w.pipelines[instance[I_PIPELINE]]
    members = members_at(w, group)
    for stage in range(pipeline[P_DEPTH]):
        at = pipeline[P_STAGE_AT] + stage
        best, least = -1, 0.0
        for node in range(w.stages[at, ST_NODE], w.stages[at + 1, ST_NODE]):
            limit = pipeline[P_NODE_AT] + node
            if w.limits[limit, L_BLOCKS] < most or w.free_blocks[instance[I_NODE_AT] + node] < blocks:
                continue
            count = w.members[members + node]
            if count >= w.limits[limit, L_CAP]:
                continue
            quotient = (count + 1) / w.limits_f[limit, LF_WEIGHT]
            if best < 0 or quotient < least:
                best, least = node, quotient
        if best < 0:
            return False
        w.scratch[CHOSEN, stage] = best
    return True


@compiled
def place_prompt(w: World, lane: int, blocks: int, tokens: int) -> bool:
    """The same for a prompt of so many tokens: in each stage the node that will have computed it first."""
    instance = w.instances[w.groups[lane, G_INSTANCE]]
    pipeline = w.pipelines[instance[I_PIPELINE]]
    members = members_at(w, lane)
    for stage in range(pipeline[P_DEPTH]):
        at = pipeline[P_STAGE_AT] + stage
        best, least = -1, 0.0
        for node in range(w.stages[at, ST_NODE], w.stages[at + 1, ST_NODE]):
            limit = pipeline[P_NODE_AT] + node
            if w.free_blocks[instance[I_NODE_AT] + node] < blocks:
                continue
            quotient = (w.pending[instance[I_NODE_AT] + node] + tokens) / w.limits_f[limit, LF_WEIGHT]
            if best < 0 or quotient < least:
                best, least = node, quotient
        if best < 0:
            return False
        prompts, limit = w.lane_prompts[members + best], pipeline[P_NODE_AT] + best
        if prompts and (
            prompts >= w.limits[limit, L_CAP]
            or not _joins(tokens, w.lane_tokens[members + best], w.limits[limit, L_CHUNK])
        ):
            return False
        w.scratch[CHOSEN, stage] = best
    return True


@compiled
def count_prompt(w: World, row: int, sign: int) -> None:
    """Its prompt is one more, or one less, that its nodes are to compute, where it is in a lane."""
    sequence = w.sequences[row]
    group = sequence[S_GROUP]
    instance = w.instances[w.groups[group, G_INSTANCE]]
    if not instance[I_LANES]:
        return
    tokens = sign * sequence[S_TOKENS]
    w.groups[group, G_TOKENS] += tokens
    members = members_at(w, group)
    for stage in range(w.pipelines[instance[I_PIPELINE], P_DEPTH]):
        node = sequence[S_NODES + stage]
        w.lane_tokens[members + node] += tokens
        w.lane_prompts[members + node] += sign
        w.pending[instance[I_NODE_AT] + node] += tokens


@compiled
def take(w: World, row: int, blocks: int) -> None:
    """Blocks for a sequence on each of its nodes; below 0: give back."""
    sequence = w.sequences[row]
    instance = w.instances[w.groups[sequence[S_GROUP], G_INSTANCE]]
    for stage in range(w.pipelines[instance[I_PIPELINE], P_DEPTH]):
        w.free_blocks[instance[I_NODE_AT] + sequence[S_NODES + stage]] -= blocks


@compiled
def count(w: World, row: int, change: int) -> None:
    """One more, or one less, of its group at each of its nodes."""
    sequence = w.sequences[row]
    group = sequence[S_GROUP]
    members = members_at(w, group)
    pipeline = w.pipelines[w.instances[w.groups[group, G_INSTANCE], I_PIPELINE]]
    for stage in range(pipeline[P_DEPTH]):
        w.members[members + sequence[S_NODES + stage]] += change
    w.groups[group, G_SIZE] += change


@compiled
def stop(w: World, row: int) -> None:
    """Give back what a running sequence holds."""
    sequence = w.sequences[row]
    group = sequence[S_GROUP]
    count(w, row, -1)
    take(w, row, -sequence[S_BLOCKS])
    if not sequence[S_SAMPLED]:
        count_prompt(w, row, -1)
    leave_group(w.sequences, w.groups[group], row)
    w.instances[w.groups[group, G_INSTANCE], I_RUNNING] -= 1
    sequence[S_RUN] = 0
    sequence[S_BLOCKS] = 0
