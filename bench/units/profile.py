"""Steps of LLaMA models on parts of A100s, as the authors of MuxServe measured them (their Figure 3)."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from bench.a100_steps import FILE, NVLINK_GBPS, SIZES, llama
from bench.extracts.perf_tables import rows_of
from templates_lib.models.model_spec import ModelSpec
from templates_lib.ports.cost_model import NodeStep
from templates_lib.values.node_config import NodeConfig

Floats = NDArray[np.float64]
TOLERANCE = 1.25
"""A step is an outlier that took more than this times another of the same model and split that had no more of the GPUs
and no less to do."""
SHARES = (30, 40, 50, 60, 70, 80, 90, 100)
COLUMNS = {"prefill": "prefill_ms", "decode": "decode_step_ms"}


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """Steps of one phase of one model on one split, over a grid; nan where nothing, or an outlier, was measured."""

    model: str
    gpus: int
    phase: str
    batches: Floats
    """(B,) requests."""
    lengths: Floats
    """(L,) tokens of each: of its prompt, or in its KV cache."""
    seconds: Floats
    """(shares, B, L), shares as in `SHARES`."""
    dropped: int

    def step(self) -> NodeStep:
        """Return the same steps as a cost model takes them: arrays (B, L)."""
        none, layers = np.zeros(()), np.array(float(model_of(self.model).layers))
        batches, lengths = self.batches[:, None], self.lengths
        if self.phase == "prefill":
            return NodeStep(layers, batches * lengths, (lengths - 1) / 2, none, none)
        return NodeStep(layers, none, none, batches, lengths)


@cache
def profile() -> Mapping[tuple[str, int, str], Steps]:
    """(model, GPUs, phase) → steps, outliers left out. Reads shared/data/perf; raises FileNotFoundError without it."""
    found: dict[tuple[str, int, str], dict[tuple[int, int, int], float]] = {}
    for row in rows_of(FILE):
        place = (int(row["sm_percent"]), int(row["batch_size"]), int(row["seq_len"]))
        for phase, column in COLUMNS.items():
            if row[column] and float(row[column]) > 0:
                key = (row["model"], int(row["tp"]), phase)
                found.setdefault(key, {})[place] = float(row[column]) / 1e3
    return {key: _grid(*key, rows) for key, rows in sorted(found.items())}


def _grid(model: str, gpus: int, phase: str, rows: Mapping[tuple[int, int, int], float]) -> Steps:
    batches, lengths = (sorted({place[i] for place in rows}) for i in (1, 2))
    seconds = np.array([[[rows.get((s, b, n), np.nan) for n in lengths] for b in batches] for s in SHARES])
    cleaned = np.where(seconds > TOLERANCE * _least_of_harder(seconds), np.nan, seconds)
    dropped = int(np.isnan(cleaned).sum() - np.isnan(seconds).sum())
    return Steps(model, gpus, phase, np.array(batches, float), np.array(lengths, float), cleaned, dropped)


def _least_of_harder(seconds: Floats) -> Floats:
    """Shortest time of the steps with at most the share, and at least the batch and the length."""
    least = np.where(np.isnan(seconds), np.inf, seconds)
    least = np.minimum.accumulate(least, axis=0)
    for axis in (1, 2):
        least = np.flip(np.minimum.accumulate(np.flip(least, axis), axis=axis), axis)
    return least


@cache
def model_of(name: str) -> ModelSpec:
    return llama(*SIZES[name])


def node_of(gpus: int) -> NodeConfig:
    """Return a node of so many A100s over NVLink."""
    return NodeConfig(f"A100-80:{gpus}", "A100-80", gpus, NVLINK_GBPS, 0.0, 0.0)
