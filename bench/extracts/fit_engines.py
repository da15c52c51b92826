"""Fits what engines add to the kernels, on end-to-end rows. Linear in the engine: features are computed once."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from templates_lib.cost.coefficients import Coefficients, Engine, LayerOverhead, Serving
from templates_lib.cost.deployment import Deployment
from templates_lib.cost.estimated import EstimatedCostModel
from templates_lib.cost.serving import Loads, StepTimes, latencies, load_of, loads, step_times

Floats = NDArray[np.float64]
LAYER = tuple(f.name for f in fields(LayerOverhead))
FLAT = ("step_s", "prompt_step_s", "request_s", "prompt_token_s", "kernel_scale", "link_wait")
ENGINE = (*FLAT, *(f"layer.{n}" for n in LAYER), *(f"prompt_layer.{n}" for n in LAYER))
SERVING = ("first_token_s", "wait_steps", "queued", "queued_apart", "stall")
START = (1e-3, 5e-3, 5e-6, 1e-7, 1.0, 1.0, 1e-5, 1e-5, 1e-5, 1e-4, 1e-4, 1e-4, 0.02, 0.5, 0.05, 0.05, 1.0)
POWERS, SCALES = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0), (0.25, 0.5, 1.0, 2.0)
LOW = (1e-5, 1e-5, 1e-9, 1e-10, 0.7, 0.3, *(1e-8,) * 6, 1e-4, 1e-2, 1e-4, 1e-4, 0.2)
HIGH = (2e-2, 3e-1, 1e-3, 1e-4, 2.0, 20.0, *(3e-4,) * 3, *(5e-3,) * 3, 0.5, 10.0, 1.0, 1.0, 2.0)
SHARPNESS = 0.05
"""Log error from which the loss grows linearly: close to least absolute error, which medians judge."""


@dataclass(frozen=True)
class Features:
    """n deployments of one backend. `times` (n, 4, len(ENGINE) + 1): seconds per unit of every engine
    number, and seconds that depend on none."""

    deployments: tuple[Deployment, ...]
    times: Floats
    load: Loads
    ttft_s: Floats
    tpot_s: Floats

    def take(self, keep: NDArray[np.bool_]) -> "Features":
        load = Loads(**{f.name: getattr(self.load, f.name)[keep] for f in fields(Loads)})
        chosen = tuple(d for d, k in zip(self.deployments, keep, strict=True) if k)
        return Features(chosen, self.times[keep], load, self.ttft_s[keep], self.tpot_s[keep])


def features(deployments: Sequence[Deployment], coefficients: Coefficients, serving: Serving) -> Features:
    units = {"none": engine_of((0.0,) * len(ENGINE), "unit")}
    units |= {name: engine_of(tuple(float(name == n) for n in ENGINE), "unit") for name in ENGINE}
    unit_coefficients = replace(coefficients, engines=units)
    times = np.empty((len(deployments), 4, len(ENGINE) + 1))
    for i, deployment in enumerate(deployments):
        gpus = {deployment.system.gpu.name: deployment.system.gpu}
        running = load_of(deployment, serving)[0]
        for j, name in enumerate(ENGINE):
            times[i, :, j] = step_times(deployment, EstimatedCostModel(gpus, name, unit_coefficients), running)
        fixed = np.array(step_times(deployment, EstimatedCostModel(gpus, "none", unit_coefficients), running))
        times[i, :, :-1] -= fixed[:, None]
        times[i, :, -1] = fixed
    ttft = np.array([d.ttft_ms for d in deployments]) / 1e3
    tpot = np.array([d.tpot_ms for d in deployments]) / 1e3
    return Features(tuple(deployments), times, loads(deployments, serving), ttft, tpot)


def engine_of(values: Sequence[float], evidence: str) -> Engine:
    """`values` in the order of ENGINE."""
    flat, layer, prompt = values[:6], values[6:9], values[9:12]
    return Engine(
        evidence=evidence,
        **dict(zip(FLAT, flat, strict=True)),
        layer=LayerOverhead(*layer),
        prompt_layer=LayerOverhead(*prompt),
    )


def fit_engine(rows: Features, evidence: str, unstated: Serving) -> tuple[Engine, Serving]:
    """Robust fit of log TTFT and log TPOT of all `rows`; how unstated workers are counted is taken from `unstated`."""

    def parts(x: Floats) -> tuple[list[float], Serving]:
        values = np.exp(x).tolist()
        return values[: len(ENGINE)], replace(unstated, **dict(zip(SERVING, values[len(ENGINE) :], strict=True)))

    def residual(x: Floats) -> Floats:
        engine, serving = parts(x)
        ttft, tpot = predict(rows, engine, serving)
        return np.concatenate([np.log(ttft / rows.ttft_s), np.log(tpot / rows.tpot_s)])

    bounds = (np.log(LOW), np.log(HIGH))
    best = least_squares(residual, np.log(START), bounds=bounds, loss="soft_l1", f_scale=SHARPNESS)
    values, serving = parts(best.x)
    return engine_of([float(f"{v:.4g}") for v in values], evidence), replace(
        serving, **{n: float(f"{getattr(serving, n):.4g}") for n in SERVING}
    )


def predict(rows: Features, engine: Sequence[float], serving: Serving) -> tuple[Floats, Floats]:
    decode, mixed, prompt, chunk = (rows.times @ np.array([*engine, 1.0])).T
    return latencies(StepTimes(decode, mixed, prompt, chunk), rows.load, serving)


def engine_values(engine: Engine) -> list[float]:
    flat = [getattr(engine, n) for n in FLAT]
    return [*flat, *(getattr(part, n) for part in (engine.layer, engine.prompt_layer) for n in LAYER)]


def unstated_workers(deployments: Sequence[Deployment], cost_model: EstimatedCostModel, start: Serving) -> Serving:
    """Scale and power of the clients per worker where a row does not state the workers: least median TPOT error."""
    rows = [d for d in deployments if d.decode is not None and d.decode.count == 0]
    if not rows:
        return start
    measured = np.array([d.tpot_ms for d in rows]) / 1e3
    best = (np.inf, start)
    for power in POWERS:
        for scale in SCALES:
            trial = replace(start, unstated_scale=scale, unstated_power=power)
            times = [step_times(d, replace_gpu(cost_model, d), load_of(d, trial)[0])[0] for d in rows]
            best = min(best, (float(np.median(np.abs(np.log(np.array(times) / measured)))), trial), key=lambda b: b[0])
    return best[1]


def unstated_queue(rows: Features, engine: Engine, start: Serving) -> Serving:
    """The same for the clients before a prefill worker: least median TTFT error."""
    hidden = np.array([d.decode is not None and d.prefill.count == 0 for d in rows.deployments])
    if not hidden.any():
        return start
    own, best = rows.take(hidden), (np.inf, start)
    for power in POWERS:
        for scale in (*SCALES, 4.0):
            trial = replace(start, unstated_queue_scale=scale, unstated_queue_power=power)
            loaded = replace(own, load=loads(own.deployments, trial))
            ttft, _ = predict(loaded, engine_values(engine), trial)
            best = min(best, (float(np.median(np.abs(np.log(ttft / own.ttft_s)))), trial), key=lambda b: b[0])
    return best[1]


def replace_gpu(cost_model: EstimatedCostModel, deployment: Deployment) -> EstimatedCostModel:
    gpu = deployment.system.gpu
    return EstimatedCostModel({gpu.name: gpu}, cost_model.engine, cost_model.coefficients)
