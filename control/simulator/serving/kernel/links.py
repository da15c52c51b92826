"""Time of a hand-off: every layer's KV cache from the node that holds it here to the node that holds it there."""

from control.simulator.serving.kernel.columns import (
    I_NODE_AT,
    I_PIPELINE,
    LF_BYTES_PER_S,
    NF_IN_S,
    NF_OUT_S,
    P_DEPTH,
    P_KIND_AT,
    P_KINDS,
    P_NODE_AT,
    P_STAGE_AT,
    PF_HAND_OFF_S,
    PF_KV_BYTES,
    ST_LAYER,
)
from control.simulator.serving.kernel.compiled import compiled
from control.simulator.serving.kernel.world import Ints, World


@compiled
def kept_bytes(w: World, pipeline: int, first: int, end: int, tokens: int) -> float:
    """Of `tokens` tokens in the layers [first, end): what their windows still see."""
    kept = 0
    at = w.pipelines[pipeline, P_KIND_AT]
    for kind in range(at, at + w.pipelines[pipeline, P_KINDS]):
        window = w.windows[kind]
        layers = w.kinds[kind, end] - w.kinds[kind, first]
        kept += layers * (tokens if window == 0 else min(tokens, window))
    return float(kept * w.pipelines_f[pipeline, PF_KV_BYTES])


@compiled
def hand_off_end_s(
    w: World, source: int, source_nodes: Ints, target: int, target_nodes: Ints, tokens: int, now_s: float
) -> float:
    """When all of it is there. `…_nodes`: of the request, one a stage, at the two instances. A node's network
    is busy with a part for as long as it takes at its own rate: links have threads of their own, so that a fast node
    takes in from several slow ones at once."""
    ours, theirs = w.instances[source, I_PIPELINE], w.instances[target, I_PIPELINE]
    own, other = w.pipelines[ours], w.pipelines[theirs]
    begin_s = now_s + w.pipelines_f[ours, PF_HAND_OFF_S]
    end_s = begin_s
    for s in range(own[P_DEPTH]):
        for t in range(other[P_DEPTH]):
            here, there = own[P_STAGE_AT] + s, other[P_STAGE_AT] + t
            first = max(w.stages[here, ST_LAYER], w.stages[there, ST_LAYER])
            end = min(w.stages[here + 1, ST_LAYER], w.stages[there + 1, ST_LAYER])
            if first >= end:
                continue
            a, b = source_nodes[s], target_nodes[t]
            size = kept_bytes(w, ours, first, end, tokens)
            from_, to = w.instances[source, I_NODE_AT] + a, w.instances[target, I_NODE_AT] + b
            start_s = max(begin_s, w.nodes_f[from_, NF_OUT_S])
            out_s = start_s + size / w.limits_f[own[P_NODE_AT] + a, LF_BYTES_PER_S]
            in_s = max(start_s, w.nodes_f[to, NF_IN_S]) + size / w.limits_f[other[P_NODE_AT] + b, LF_BYTES_PER_S]
            w.nodes_f[from_, NF_OUT_S] = out_s
            w.nodes_f[to, NF_IN_S] = in_s
            end_s = max(end_s, out_s, in_s)
    return float(end_s)
