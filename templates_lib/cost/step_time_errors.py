"""How far step times are off, by GPU and engine: the shipped outcome of `python -m bench.compare_step_times`."""

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import msgspec
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
FILE = "perf/step_time_errors.json"
CLEARLY = 0.9
"""Kernels are taken when their error is at most this share of the estimate's."""
ALL = "all"


@dataclass(frozen=True, slots=True)
class Medians:
    """Median relative errors over measured deployments; 0 rows where nothing could be compared."""

    rows: int
    ttft: float
    tpot: float


@dataclass(frozen=True, slots=True)
class HeldOut:
    gpu_out: Medians
    """No row of the GPU was fitted."""
    model_out: Medians
    """No row of the model was fitted."""

    @property
    def mean(self) -> float:
        return (self.gpu_out.ttft + self.gpu_out.tpot + self.model_out.ttft + self.model_out.tpot) / 4


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two sources on the deployments of one GPU and engine."""

    chosen: str
    """`estimated` or `kernels`."""
    estimated: HeldOut
    """Over all rows."""
    same_rows: HeldOut
    """The estimate over those rows whose kernels were all timed."""
    kernels: HeldOut
    """The kernel-based model over the same."""


@dataclass(frozen=True, slots=True)
class StepTimeErrors:
    date: str
    source: str
    command: str
    coefficients: str
    """Fingerprint of those that were judged (`Coefficients`)."""
    engines: dict[str, dict[str, Comparison]]
    """Engine → GPU → errors; `all`: over all GPUs of the engine."""


@cache
def load_step_time_errors() -> StepTimeErrors:
    """The errors that ship with the package."""
    text = files("templates_lib").joinpath("data", *FILE.split("/")).read_bytes()
    return msgspec.json.decode(text, type=StepTimeErrors)


def judged(by_gpu: Floats, by_model: Floats) -> Comparison:
    """The better of both sources. `by_gpu`, `by_model` (n, 4): predicted over measured TTFT and TPOT by the estimate,
    then by kernels, with the row's GPU or model left out of the fit; NaN where there is none."""
    both = ~np.isnan(by_gpu[:, 2]) & ~np.isnan(by_model[:, 2])
    estimated, same, kernels = (
        HeldOut(_medians(gpu), _medians(model))
        for gpu, model in (
            (by_gpu[:, :2], by_model[:, :2]),
            (by_gpu[both, :2], by_model[both, :2]),
            (by_gpu[both, 2:], by_model[both, 2:]),
        )
    )
    better = both.any() and kernels.mean <= CLEARLY * same.mean
    return Comparison("kernels" if better else "estimated", estimated, same, kernels)


def _medians(ratios: Floats) -> Medians:
    known = ratios[~np.isnan(ratios[:, 0])]
    if not len(known):
        return Medians(0, 0.0, 0.0)
    ttft, tpot = (round(float(m), 4) for m in np.median(np.abs(known - 1), axis=0))
    return Medians(len(known), ttft, tpot)
