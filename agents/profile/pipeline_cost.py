"""Measures what a pipeline costs beside computing: processor time of scheduler and workers whose engines are idle."""

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from agents.profile.idle_pipeline import IdleClient, IdlePipeline, idle_pipeline
from agents.profile.transfer import transfer_cpu_s_per_byte
from templates_lib.pipeline_cost import PipelineCost

_STAGES = 2
_PER_GROUP = 16
_ALONE_STEPS = 600
_FULL_STEPS = 250
_WAIT_S = 6.0
"""Processor time of a process is counted in hundredths of a second."""


@dataclass(frozen=True, slots=True)
class _Run:
    steps: int
    requests: int
    """Of each step."""
    scheduler_cpu_s: float
    workers_cpu_s: float
    """Of all stages."""
    wall_s: float


def measure_pipeline_cost(hidden_size: int, dtype: torch.dtype, folder: Path) -> PipelineCost:
    with idle_pipeline(_STAGES, _PER_GROUP, hidden_size, dtype, folder) as pipeline:
        alone, full, waiting = asyncio.run(_runs(pipeline))
    per_step = [(run.scheduler_cpu_s + run.workers_cpu_s / _STAGES) / run.steps for run in (alone, full)]
    request = max(0.0, (per_step[1] - per_step[0]) / (full.requests - alone.requests))
    wait = (alone.wall_s - alone.scheduler_cpu_s - alone.workers_cpu_s) / alone.steps / _STAGES
    per_byte = transfer_cpu_s_per_byte(hidden_size, dtype)
    return PipelineCost(
        step_cpu_s=max(0.0, per_step[0] - request * alone.requests),
        # A stage in the middle takes and sends each row.
        row_cpu_s=2 * per_byte * hidden_size * dtype.itemsize,
        request_cpu_s=request,
        hop_wait_s=max(0.0, wait),
        transfer_cpu_s_per_byte=per_byte,
        waiting_cores=waiting,
    )


async def _runs(pipeline: IdlePipeline) -> tuple[_Run, _Run, float]:
    """With one request, with as many as there is room for; and processors used with none, as of `PipelineCost`."""
    client = IdleClient(pipeline)
    await client.wait_up()

    async def run(requests: int, tokens: int) -> _Run:
        (scheduler, workers), start = pipeline.cpu_s, time.perf_counter()
        await client.run(requests, prompt_tokens=1, tokens=tokens)
        wall = time.perf_counter() - start
        scheduler_end, workers_end = pipeline.cpu_s
        groups = min(requests, _STAGES)
        return _Run(groups * tokens, requests // groups, scheduler_end - scheduler, workers_end - workers, wall)

    await run(1, 50)  # warms up
    runs = await run(1, _ALONE_STEPS), await run(_STAGES * _PER_GROUP, _FULL_STEPS)
    (scheduler, workers), start = pipeline.cpu_s, time.perf_counter()
    await asyncio.sleep(_WAIT_S)
    wall = time.perf_counter() - start
    scheduler_end, workers_end = pipeline.cpu_s
    client.close()
    return *runs, (scheduler_end - scheduler + (workers_end - workers) / _STAGES) / wall
