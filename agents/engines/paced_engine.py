"""An engine that keeps to a share of the time by itself, where nothing else holds its node to a CPU quota."""

import time
from typing import Any

import torch

from agents.engines.batch import StepBatch
from agents.engines.protocol import StageEngine
from agents.engines.step_output import StepOutput


def paced(engine: StageEngine, share: float) -> StageEngine:
    """Return an engine whose steps take 1 / `share` of their time. Raises ValueError unless 0 < share ≤ 1."""
    if not 0 < share <= 1:
        raise ValueError(f"an engine's share of the time is above 0 and at most 1, not {share}")
    return engine if share == 1 else PacedEngine(engine, share)


class PacedEngine:
    """Sleeps after every step; all else is the engine's own."""

    def __init__(self, engine: StageEngine, share: float) -> None:
        self._engine = engine
        self._idle_per_busy = 1 / share - 1

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def step(self, batch: StepBatch, rows: torch.Tensor) -> StepOutput:
        start = time.perf_counter()
        output = self._engine.step(batch, rows)
        time.sleep((time.perf_counter() - start) * self._idle_per_busy)
        return output
