"""Measures what a pipeline costs beside computing: processor time of scheduler and workers whose engines are idle."""

import asyncio
import time
from collections.abc import Awaitable
from dataclasses import dataclass
from pathlib import Path

import torch

from agents.profile.idle_pipeline import IdleClient, IdlePipeline, idle_pipeline
from agents.profile.transfer import edge_cpu_s_per_byte
from templates_lib.cost.pipeline_cost import PipelineCost

_STAGES = 2
_PER_GROUP = 16
_ALONE_STEPS = 600
_FULL_STEPS = 250
_PROMPTS, _PROMPT_TOKENS, _PAUSE_S = 60, 64, 0.05
_WAIT_S = 6.0
"""Processor time of a process is counted in hundredths of a second."""


@dataclass(frozen=True, slots=True)
class _Use:
    """Processor time of a span."""

    scheduler_cpu_s: float
    workers_cpu_s: float
    """Processor seconds of the workers of all stages."""
    wall_s: float

    @property
    def node_cpu_s(self) -> float:
        """Processor seconds of a node that has a stage and the scheduler."""
        return self.scheduler_cpu_s + self.workers_cpu_s / _STAGES


@dataclass(frozen=True, slots=True)
class _TimedRun:
    steps: int
    requests: int
    """Requests of each step."""
    use: _Use


def measure_pipeline_cost(hidden_size: int, dtype: torch.dtype, folder: Path) -> PipelineCost:
    with idle_pipeline(_STAGES, _PER_GROUP, hidden_size, dtype, folder) as pipeline:
        alone, full, prompts, waiting = asyncio.run(_runs(pipeline))
    per_step = [run.use.node_cpu_s / run.steps for run in (alone, full)]
    request = max(0.0, (per_step[1] - per_step[0]) / (full.requests - alone.requests))
    waiting_cores = waiting.node_cpu_s / waiting.wall_s
    prompt = (prompts.node_cpu_s - waiting_cores * prompts.wall_s) / _PROMPTS - per_step[0]
    wait = (alone.use.wall_s - alone.use.scheduler_cpu_s - alone.use.workers_cpu_s) / alone.steps / _STAGES
    return PipelineCost(
        step_cpu_s=max(0.0, per_step[0] - request * alone.requests),
        # A stage in the middle takes and sends each row.
        row_cpu_s=2 * edge_cpu_s_per_byte(hidden_size, dtype) * hidden_size * dtype.itemsize,
        request_cpu_s=request,
        prompt_cpu_s=max(0.0, prompt),
        hop_wait_s=max(0.0, wait),
        waiting_cores=waiting_cores,
    )


async def _runs(pipeline: IdlePipeline) -> tuple[_TimedRun, _TimedRun, _Use, _Use]:
    """Run with one request, with as many as there is room for, with one prompt after the other, and with none."""
    client = IdleClient(pipeline)
    await client.wait_up()

    async def run(requests: int, tokens: int) -> _TimedRun:
        use = await _use(pipeline, client.run(requests, prompt_tokens=1, tokens=tokens))
        groups = min(requests, _STAGES)
        return _TimedRun(groups * tokens, requests // groups, use)

    async def prompts() -> None:
        for _ in range(_PROMPTS):
            await client.run(1, _PROMPT_TOKENS, tokens=1)
            await asyncio.sleep(_PAUSE_S)

    await run(1, 50)  # warms up
    runs = await run(1, _ALONE_STEPS), await run(_STAGES * _PER_GROUP, _FULL_STEPS), await _use(pipeline, prompts())
    waiting = await _use(pipeline, asyncio.sleep(_WAIT_S))
    client.close()
    return *runs, waiting


async def _use(pipeline: IdlePipeline, work: Awaitable[None]) -> _Use:
    (scheduler, workers), start = pipeline.cpu_s, time.perf_counter()
    await work
    wall = time.perf_counter() - start
    scheduler_end, workers_end = pipeline.cpu_s
    return _Use(scheduler_end - scheduler, workers_end - workers, wall)
