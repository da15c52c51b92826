"""Hand-offs: every layer's KV cache from the node that holds it here to the node that holds it there."""

from control.simulator.serving.autoregressive.records import ALL_STAGES, COMING, PIECE_BITS
from control.simulator.serving.autoregressive.scheduler import join_next_step, send_piece, sends
from control.simulator.serving.kernel.compiled import compiled
from control.simulator.serving.kernel.heap import push, wake
from control.simulator.serving.kernel.legs import complete
from control.simulator.serving.kernel.links import transfer_end_s
from control.simulator.serving.kernel.records import ARRIVED, READY
from control.simulator.serving.kernel.world import Limits, World
from templates_lib.values.placement import HAND_OFF_PIECES


@compiled
def is_coming(w: World, request: int, row: int, run: int) -> bool:
    """Whether the hand-off to the leg `row` goes on: both legs are as they were when it began."""
    leg, sequence = w.legs[row], w.sequences[row]
    return bool(
        w.calls[row // w.places.shape[1]].request == request
        and leg.phase == COMING
        and sequence.run == run
        and sends(w, sequence.peer)
        and w.instances[leg.instance].alive
    )


@compiled
def send(w: World, request: int, row: int, named: int, now_s: float) -> None:
    """Send a piece of one stage's part of the KV cache to the leg `row`, and the next one behind it; or all that all
    stages have."""
    sequence = w.sequences[row]
    source, stage, piece = sequence.peer, named >> PIECE_BITS & ALL_STAGES, named & (1 << PIECE_BITS) - 1
    own = w.instances[w.legs[source].instance]
    pipeline = w.pipelines[own.model]
    if stage == ALL_STAGES:
        end_s = begin_s = now_s + pipeline.hand_off_s
        for each in range(pipeline.depth):
            end_s = max(end_s, _end_s(w, source, row, each, 1, begin_s))
        push(w, end_s, ARRIVED, request, row, sequence.run)
        return
    sequence.there_s = max(sequence.there_s, _end_s(w, source, row, stage, HAND_OFF_PIECES, now_s))
    if piece + 1 < HAND_OFF_PIECES:
        send_piece(w, request, row, stage, piece + 1, w.nodes[own.node_at + w.seated[source, stage]].out_s)
        return
    sequence.unsent -= 1
    if sequence.unsent == 0:
        push(w, sequence.there_s, ARRIVED, request, row, sequence.run)


@compiled
def take_over(w: World, limits: Limits, request: int, row: int, now_s: float) -> None:
    """Note that the leg `row` has its KV cache, or the first token: with both it goes on, and the leg that sent them is
    done."""
    w.sequences[row].awaited -= 1
    wake(w, w.legs[row].instance, now_s)
    if w.sequences[row].awaited:
        return
    w.fates[request].handed_s = now_s
    w.legs[row].phase = READY
    join_next_step(w, row)
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
def _end_s(w: World, source_row: int, target_row: int, s: int, pieces: int, now_s: float) -> float:
    """When a piece of the part of the source's stage `s` is there. Links have threads of their own, so that a fast node
    takes in from several slow ones at once."""
    source, target = w.instances[w.legs[source_row].instance], w.instances[w.legs[target_row].instance]
    own, other = w.pipelines[source.model], w.pipelines[target.model]
    tokens = w.sequences[target_row].position
    end_s = now_s
    for t in range(other.depth):
        here, there = own.stage_at + s, other.stage_at + t
        first = max(w.stages[here].layer, w.stages[there].layer)
        end = min(w.stages[here + 1].layer, w.stages[there + 1].layer)
        if first >= end:
            continue
        size = _kept_bytes(w, source.model, first, end, tokens) / pieces
        from_ = w.nodes[source.node_at + w.seated[source_row, s]]
        to = w.nodes[target.node_at + w.seated[target_row, t]]
        if to.compute_s > now_s:
            to.links_s += size * w.limits[other.limit_at + w.seated[target_row, t]].take_s_per_byte
        end_s = max(end_s, transfer_end_s(from_, to, size, now_s))
    return float(end_s)
