"""Hand-offs: every layer's KV cache from the node that holds it here to the node that holds it there."""

from control.simulator.serving.autoregressive.records import COMING, HELD
from control.simulator.serving.kernel.compiled import compiled
from control.simulator.serving.kernel.heap import push, wake
from control.simulator.serving.kernel.legs import complete
from control.simulator.serving.kernel.links import transfer_end_s
from control.simulator.serving.kernel.records import ARRIVED, READY
from control.simulator.serving.kernel.world import Limits, World


@compiled
def is_coming(w: World, request: int, row: int, run: int) -> bool:
    """Whether the hand-off to the leg `row` goes on: both legs are as they were when it began."""
    leg, sequence = w.legs[row], w.sequences[row]
    source = w.legs[sequence.peer]
    return bool(
        w.calls[row // w.places.shape[1]].request == request
        and leg.phase == COMING
        and source.phase == HELD
        and sequence.run == run
        and w.instances[source.instance].alive
        and w.instances[leg.instance].alive
    )


@compiled
def send(w: World, request: int, row: int, run: int, now_s: float) -> None:
    """Begin the hand-off to the leg `row`."""
    push(w, _end_s(w, w.sequences[row].peer, row, now_s), ARRIVED, request, row, run)


@compiled
def take_kv(w: World, limits: Limits, request: int, row: int, now_s: float) -> None:
    """Have the leg `row` go on: its KV cache is there. The leg that sent it is done."""
    w.fates[request].handed_s = now_s
    w.legs[row].phase = READY
    wake(w, w.legs[row].instance, now_s)
    complete(w, limits, w.sequences[row].peer, now_s)


@compiled
def _kept_bytes(w: World, pipeline: int, first: int, end: int, tokens: int) -> float:
    """Bytes of `tokens` tokens in the layers [first, end): what their windows still see."""
    kept = 0
    own = w.pipelines[pipeline]
    for kind in range(own.kind_at, own.kind_at + own.kinds):
        window = w.windows[kind]
        layers = w.kinds[kind, end] - w.kinds[kind, first]
        kept += layers * (tokens if window == 0 else min(tokens, window))
    return float(kept * own.kv_bytes)


@compiled
def _end_s(w: World, source_row: int, target_row: int, now_s: float) -> float:
    """When all of the KV cache is there. Links have threads of their own, so that a fast node takes in from several
    slow ones at once."""
    source, target = w.instances[w.legs[source_row].instance], w.instances[w.legs[target_row].instance]
    own, other = w.pipelines[source.model], w.pipelines[target.model]
    tokens = w.sequences[target_row].position
    begin_s = now_s + own.hand_off_s
    end_s = begin_s
    for s in range(own.depth):
        for t in range(other.depth):
            here, there = own.stage_at + s, other.stage_at + t
            first = max(w.stages[here].layer, w.stages[there].layer)
            end = min(w.stages[here + 1].layer, w.stages[there + 1].layer)
            if first >= end:
                continue
            size = _kept_bytes(w, source.model, first, end, tokens)
            from_ = w.nodes[source.node_at + w.seated[source_row, s]]
            to = w.nodes[target.node_at + w.seated[target_row, t]]
            end_s = max(end_s, transfer_end_s(from_, to, size, begin_s))
    return float(end_s)
