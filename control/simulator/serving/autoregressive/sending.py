"""A leg's KV cache on its way to the leg that takes over, and how long the one that computed it goes on meanwhile."""

import numpy as np

from control.simulator.serving.autoregressive.records import (
    ALL_STAGES,
    COMING,
    HELD,
    OFFERED,
    PIECE_BITS,
    STAGE_BITS,
    Chunk,
)
from control.simulator.serving.kernel.compiled import compiled
from control.simulator.serving.kernel.heap import push, wake
from control.simulator.serving.kernel.lists import enqueue
from control.simulator.serving.kernel.records import ARRIVED, AWAITING, READY, SEND
from control.simulator.serving.kernel.world import Limits, World
from policies import own_tokens
from templates_lib.values.placement import HAND_OFF_PIECES

_goes_on = compiled(own_tokens.goes_on)


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
def may_go_on(w: World, limits: Limits, row: int, prompts: int) -> bool:
    """Whether the prefill leg may make another token while its KV cache is on its way. `prompts`: that are to be
    computed there."""
    sequence = w.sequences[row]
    if sequence.peer < 0 or not w.pipelines[w.instances[w.legs[row].instance].model].keeps_all:
        return False
    target = w.sequences[sequence.peer]
    if w.legs[sequence.peer].phase != COMING or target.is_here:
        return False
    return bool(_goes_on(sequence.tokens - target.position - 1, limits.own_tokens, prompts))


@compiled
def hold(w: World, row: int, now_s: float) -> None:
    """Have the prefill leg make no more tokens: the other one goes on behind those that there are, once it knows."""
    w.legs[row].phase = HELD
    peer = w.sequences[row].peer
    if w.legs[peer].phase == COMING:  # it lacks them
        told_s = now_s + w.pipelines[w.instances[w.legs[row].instance].model].hand_off_s / 2
        push(w, told_s, ARRIVED, w.calls[row // w.places.shape[1]].request, peer, w.sequences[peer].run)
    else:
        offer(w, peer, now_s)


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
