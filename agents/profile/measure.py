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
STEPS_KEPT = 8
"""Of requests that decode on a GPU, behind each other."""
BLOCK_S = 0.1
"""A quota is given in periods of some milliseconds: a block is many of them."""

_CPU = torch.device("cpu")


def kv_blocks(points: tuple[Point, ...], block_tokens: int) -> int:
    """Count the KV blocks that the largest of the points needs: whole blocks for every request."""
    return max(
        p.prompts * -(-(p.prompt_before + p.prompt_tokens) // block_tokens)
        + p.requests * -(-(p.context + STEPS_KEPT) // block_tokens)
        for p in points
    )


def measured(engine: StageEngine, points: Sequence[Point], device: torch.device = _CPU) -> Iterator[ProfileBlock]:
    """Every step BLOCKS times for a while, all of them in turns: how fast a machine is changes within seconds, and so
    it changes for all steps alike. Each has run before it counts. On a GPU (`device`) a step has ended when the device
    has done what it was given."""
    each = [(point, step_of(engine, point, device)) for point in points]
    for _, steps in each:
        steps()
    for _ in range(BLOCKS):
        for point, steps in each:
            wall_s, cpu_s = block_seconds(steps)
            yield ProfileBlock(_row(engine, point, wall_s), cpu_s)


def step_of(engine: StageEngine, point: Point, device: torch.device = _CPU) -> Callable[[], tuple[int, float]]:
    """Make what does the step, and returns how often, and the seconds of it that do not count. Its requests are taken
    and given back, and what they are meant to have cached is reserved and holds zeros: what is in a cache costs no
    time. On a CPU that costs little compared with the step; on a GPU it can be ten times as long, so that it does not
    count there, and requests that decode stay for STEPS_KEPT steps: tables of new ones are copied to it."""
    sampling = GREEDY if engine.facts.held.last else None
    before, tokens = point.prompt_before, point.prompt_tokens
    prompts = tuple(StepRequest(f"p{i}", before, tokens, sampling) for i in range(point.prompts))
    is_gpu = device.type == "cuda"
    kept = STEPS_KEPT if is_gpu else 1

    def batch_of(more: int) -> StepBatch:
        decodes = (StepRequest(f"d{i}", point.context + more, 1, sampling) for i in range(point.requests))
        return StepBatch((*prompts, *decodes))

    batches = [batch_of(more) for more in range(kept)]
    rows = rows_for(engine, batches[0].tokens, device)

    def steps() -> tuple[int, float]:
        begun, counted = time.perf_counter(), 0.0
        for number, each in enumerate(batches):
            for request in each.requests if number == 0 else prompts:
                if request.position:
                    engine.reserve(request.id, request.position)
            start = time.perf_counter()
            engine.step(each, rows)
            if is_gpu:
                torch.cuda.synchronize(device)
            counted += time.perf_counter() - start
            for request in each.requests if each is batches[-1] else prompts:
                engine.free(request.id)
        return kept, time.perf_counter() - begun - counted if is_gpu else 0.0

    return steps


def rows_for(engine: StageEngine, tokens: int, device: torch.device = _CPU) -> torch.Tensor:
    """(tokens,) ids of tokens for the first layers, else (tokens, hidden size) of activations: input of a step."""
    facts = engine.facts
    if facts.held.first:
        return torch.arange(tokens) % facts.vocab_size
    rows = torch.randn(tokens, facts.hidden_size, generator=torch.Generator().manual_seed(0))
    return rows.to(device=device, dtype=facts.dtype)


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


def block_seconds(call: Callable[[], tuple[int, float]]) -> tuple[float, float]:
    """Seconds of one step, on the clock and of the processor: means over BLOCK_S, and over one call at least. `call`
    returns the number of steps that it did, and the seconds of it that do not count on the clock."""
    steps, apart, start, cpu = 0, 0.0, time.perf_counter(), time.process_time()
    while (passed := time.perf_counter() - start) < BLOCK_S or not steps:
        done, other_s = call()
        steps += done
        apart += other_s
    return (passed - apart) / steps, (time.process_time() - cpu) / steps
