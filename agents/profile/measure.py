"""Measures the points of a sweep on an engine."""

import time
from collections.abc import Callable, Iterator, Sequence

import torch

from agents.engines.batch import StepBatch, StepRequest
from agents.engines.protocol import StageEngine
from agents.engines.sampling import GREEDY
from agents.profile.points import Point
from templates_lib.values.profile_row import ProfileBlock, ProfileRow

BLOCKS = 5
"""Blocks measured of each step."""
BLOCK_S = 0.1
"""A quota is given in periods of some milliseconds: a block is many of them."""


def kv_blocks(points: tuple[Point, ...], block_tokens: int) -> int:
    """Count the KV blocks that the largest of the points needs: whole blocks for every request."""
    return max(
        p.prompts * -(-(p.prompt_before + p.prompt_tokens) // block_tokens)
        + p.requests * -(-(p.context + 1) // block_tokens)
        for p in points
    )


def measured(engine: StageEngine, points: Sequence[Point]) -> Iterator[ProfileBlock]:
    """Every step BLOCKS times for a while, all of them in turns: how fast a machine is changes within seconds, and so
    it changes for all steps alike. Each has run before it counts."""
    steps = [(point, step_of(engine, point)) for point in points]
    for _, step in steps:
        step()
    for _ in range(BLOCKS):
        for point, step in steps:
            wall_s, cpu_s = block_seconds(step)
            yield ProfileBlock(_row(engine, point, wall_s), cpu_s)


def step_of(engine: StageEngine, point: Point) -> Callable[[], None]:
    """Make the step. Its requests are taken and given back each time, and what they are meant to have cached is
    reserved and holds zeros: that costs little compared with the step, and what is in a cache costs no time."""
    sampling = GREEDY if engine.facts.held.last else None
    before, tokens = point.prompt_before, point.prompt_tokens
    prompts = tuple(StepRequest(f"p{i}", before, tokens, sampling) for i in range(point.prompts))
    decodes = tuple(StepRequest(f"d{i}", point.context, 1, sampling) for i in range(point.requests))
    batch = StepBatch(prompts + decodes)
    rows = rows_for(engine, batch.tokens)

    def step() -> None:
        for request in batch.requests:
            if request.position:
                engine.reserve(request.id, request.position)
        engine.step(batch, rows)
        for request in batch.requests:
            engine.free(request.id)

    return step


def rows_for(engine: StageEngine, tokens: int) -> torch.Tensor:
    """(tokens,) ids of tokens for the first layers, else (tokens, hidden size) of activations: input of a step."""
    facts = engine.facts
    if facts.held.first:
        return torch.arange(tokens) % facts.vocab_size
    return torch.randn(tokens, facts.hidden_size, generator=torch.Generator().manual_seed(0)).to(facts.dtype)


def _row(engine: StageEngine, point: Point, seconds: float) -> ProfileRow:
    held = engine.facts.held
    return ProfileRow(
        layers=held.layers,
        first=held.first,
        last=held.last,
        prompt_tokens=point.prompts * point.prompt_tokens,
        prompt_context=point.prompt_before + (point.prompt_tokens - 1) / 2 if point.prompts else 0.0,
        decode_requests=point.requests,
        decode_context=float(point.context),
        seconds=seconds,
        held_out=point.held_out,
    )


def block_seconds(call: Callable[[], object]) -> tuple[float, float]:
    """Seconds of one call, on the clock and of the processor: means over BLOCK_S, and over one call at least."""
    calls, start, cpu = 0, time.perf_counter(), time.process_time()
    while (passed := time.perf_counter() - start) < BLOCK_S or not calls:
        call()
        calls += 1
    return passed / calls, (time.process_time() - cpu) / calls
