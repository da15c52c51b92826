"""What a share of a GPU's processors computes and reads: the curves of `templates_lib.cost.shared_gpu`, fitted."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from bench.units.profile import SHARES, TOLERANCE, Steps, model_of, node_of, profile
from templates_lib.cost.estimated import EstimatedCostModel, estimated_cost_model
from templates_lib.cost.shared_gpu import FILE, SharedGpu, part_of
from templates_lib.ports.cost_model import GpuPart, Parallel
from templates_lib.values.hardware import load_gpus

Floats = NDArray[np.float64]
SOURCE = (
    "hao-ai-lab/MuxServe examples/placement/llama.json @223148033454e4740f4b4617c72910c370a5604b: LLaMA 7B to 65B on "
    "A100-80 under CUDA MPS, prefill and decode steps at 30 to 100 percent of the processors"
)
COMMAND = "python -m bench.units shares --write"
DATA = Path(__file__).resolve().parents[2] / "templates_lib" / "data" / FILE
BAR = 0.05
"""Median error of steps on parts of GPUs, given their time on whole ones."""


def run(*, write: bool) -> bool:
    """Fit the curves, print what they miss, and where `write` store them. Tells whether the bar is met."""
    fitted = least_squares(_residuals, np.log([2.0, 0.3]), loss="soft_l1", f_scale=0.1)
    curves = _curves(*(round(float(half), 3) for half in np.exp(fitted.x)))
    error = float(
        np.median(np.abs(np.concatenate([_kept(_errors(steps, curves)[:-1]) for steps in profile().values()])))
    )
    curves = replace(curves, error=round(error, 4))
    _print(curves)
    if write:
        DATA.write_text(json.dumps(asdict(curves), indent=1) + "\n")
    return curves.error <= BAR


def _print(curves: SharedGpu) -> None:
    print(f"half of the gain: compute {curves.compute_half:.2f}, bandwidth {curves.bandwidth_half:.2f}")
    print(f"{'phase':8} {'share':>6} {'steps':>6} {'slower':>7} {'median error':>13} {'bias':>6} {'worst tenth':>12}")
    for phase in ("prefill", "decode"):
        for i, share in enumerate(SHARES[:-1]):
            of_phase = [steps for steps in profile().values() if steps.phase == phase]
            error = np.concatenate([_kept(_errors(steps, curves)[i]) for steps in of_phase])
            slower = np.concatenate([_kept(steps.seconds[i] / steps.seconds[-1]) for steps in of_phase])
            print(f"{phase:8} {share:5}% {len(error):6} {np.median(slower):7.2f} {np.median(np.abs(error)):13.1%} "
                  f"{np.median(error):6.1%} {np.quantile(np.abs(error), 0.9):12.1%}")  # fmt: skip
    print(f"{curves.rows} steps; {curves.dropped} dropped, of {TOLERANCE} times a harder one's time and more; "
          f"median error {curves.error:.1%}, bar {BAR:.0%}")  # fmt: skip


def _curves(compute: float, bandwidth: float) -> SharedGpu:
    rows = sum(int(np.isfinite(steps.seconds[:-1] + steps.seconds[-1]).sum()) for steps in profile().values())
    dropped = sum(steps.dropped for steps in profile().values())
    return SharedGpu("2026-11-27", SOURCE, COMMAND, rows, dropped, 0.0, compute, bandwidth)


def _residuals(x: Floats) -> Floats:
    curves = _curves(*(float(half) for half in np.exp(x)))
    return np.concatenate([_kept(np.log1p(_errors(steps, curves)[:-1])) for steps in profile().values()])


def _errors(steps: Steps, curves: SharedGpu) -> Floats:
    """(shares, B, L) predicted / measured - 1: the time on whole GPUs as measured, and what the model adds for a part
    of them. An engine's host does as much on either."""
    gpus = load_gpus()
    whole = _seconds(estimated_cost_model(gpus), steps)
    added = [_seconds(_on_part(GpuPart(share / 100), curves), steps) - whole for share in SHARES]
    return (steps.seconds[-1] + np.stack(added)) / steps.seconds - 1


def _on_part(part: GpuPart, curves: SharedGpu) -> EstimatedCostModel:
    gpus = load_gpus()
    return estimated_cost_model(gpus | {"A100-80": part_of(gpus["A100-80"], part, curves)})


def _seconds(times: EstimatedCostModel, steps: Steps) -> Floats:
    parallel = Parallel(tp=steps.gpus)
    found = times.stage_seconds(model_of(steps.model), node_of(steps.gpus), parallel, steps.step(), head=True)
    return np.broadcast_to(found, steps.seconds.shape[1:])


def _kept(values: Floats) -> Floats:
    return values[np.isfinite(values)]
