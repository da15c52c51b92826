"""Fits what engines add to the kernels, on end-to-end rows. Linear in the engine: features are computed once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from templates_lib.cost.coefficients import Coefficients, EngineOverhead, LayerOverhead, ServingOverhead, Setup
from templates_lib.cost.deployment import Deployment
from templates_lib.cost.serving import (
    Loads,
    StepTimes,
    kv_requests,
    latencies,
    load_of,
    loads,
    step_times,
    usual_clients,
)
from templates_lib.cost.validation import Maker, estimate_for
from templates_lib.ports.cost_model import StageCostModel

Floats = NDArray[np.float64]
LAYER = tuple(f.name for f in fields(LayerOverhead))
FLAT = ("step_s", "prompt_step_s", "request_s", "prompt_token_s", "kernel_scale", "link_wait")
ENGINE = (*FLAT, *(f"layer.{n}" for n in LAYER), *(f"prompt_layer.{n}" for n in LAYER))
SERVING = ("first_token_s", "hand_off_s", "wait_steps", "queued", "queued_apart", "stall")
UNSTATED = (
    "unstated_hand_off_s",
    "unstated_queue_scale",
    "unstated_queue_power",
    "unstated_scale",
    "unstated_power",
)
START = (1e-3, 5e-3, 5e-6, 1e-7, 1.0, 1.0, 1e-5, 1e-5, 1e-5, 1e-4, 1e-4, 1e-4, 0.02, 0.02, 0.5, 0.05, 0.05, 1.0)
LOW = (1e-5, 1e-5, 1e-9, 1e-10, 0.7, 0.3, *(1e-8,) * 6, 1e-4, 1e-4, 1e-2, 1e-4, 1e-4, 0.2)
HIGH = (2e-2, 3e-1, 1e-3, 1e-4, 2.0, 20.0, *(3e-4,) * 3, *(5e-3,) * 3, 0.5, 5.0, 60.0, 1.0, 1.0, 2.0)
UNSTATED_STARTS = ((0.05, 1.0, 0.6, 0.5, 0.8), (0.5, 1.0, 0.6, 1.0, 0.6), (0.5, 0.2, 0.9, 0.3, 1.0))
UNSTATED_LOW, UNSTATED_HIGH = (1e-4, 0.01, 0.1, 0.01, 0.1), (10.0, 30.0, 2.0, 30.0, 2.0)
POINTS = 12
SHARPNESS = 0.05
"""Log error from which the loss grows linearly: close to least absolute error, which medians judge."""
LIKENESS = 3.0
"""Weight of a parent's numbers in the fit of a setup, per squared log difference; a row that is off by a SHARPNESS
weighs about 1. From 3 to 30 errors of held-out rows and deployments change by a point."""


@dataclass(frozen=True)
class Features:
    """n deployments of one backend. `times` (n, 4, len(ENGINE) + 1): seconds per unit of every engine
    number, and seconds that depend on none."""

    deployments: tuple[Deployment, ...]
    times: Floats
    load: Loads
    ttft_s: Floats
    tpot_s: Floats
    hidden: "Hidden"

    def take(self, keep: NDArray[np.bool_]) -> "Features":
        load = Loads(**{f.name: getattr(self.load, f.name)[keep] for f in fields(Loads)})
        hidden = Hidden(**{f.name: getattr(self.hidden, f.name)[keep] for f in fields(Hidden)})
        chosen = tuple(d for d, k in zip(self.deployments, keep, strict=True) if k)
        return Features(chosen, self.times[keep], load, self.ttft_s[keep], self.tpot_s[keep], hidden)

    def under(self, serving: ServingOverhead) -> "Features":
        """With the clients of unstated workers that `serving` takes for usual."""
        h, stated = self.hidden, self.load.stated
        decoding = usual_clients(h.concurrency, serving.unstated_scale, serving.unstated_power)
        clients = decoding / h.decode_replicas
        running = np.maximum(np.minimum(clients, h.room), np.minimum(clients, 1.0))
        queueing = usual_clients(h.concurrency, serving.unstated_queue_scale, serving.unstated_queue_power)
        load = replace(
            self.load,
            running=np.where(stated, self.load.running, running),
            waiting=np.where(stated, self.load.waiting, clients - running),
            queueing=np.where(stated, self.load.queueing, queueing / h.prefill_replicas),
        )
        place = np.log(np.maximum(running * h.decode_replicas, 1.0)) / np.log(np.maximum(h.concurrency, 2.0))
        low = np.clip((place * (POINTS - 1)).astype(np.intp), 0, POINTS - 2)
        share, each = np.clip(place * (POINTS - 1) - low, 0.0, 1.0)[:, None], np.arange(len(low))
        decode = h.decode[each, low] * (1 - share) + h.decode[each, low + 1] * share
        times = self.times.copy()
        times[~stated, :2] = decode[~stated, None, :]
        return replace(self, load=load, times=times)


@dataclass(frozen=True)
class Hidden:
    """What rows that hide their workers may mean. Arrays (n, …); `decode` is filled for such rows only."""

    concurrency: Floats
    prefill_replicas: Floats
    decode_replicas: Floats
    room: Floats
    """Requests that the cache of a decode replica holds."""
    decode: Floats
    """(n, POINTS, len(ENGINE) + 1): as `times`, of one decode with concurrency ** (i / (POINTS - 1)) requests."""


def features(
    deployments: Sequence[Deployment],
    coefficients: Coefficients,
    serving: ServingOverhead,
    maker: Maker = estimate_for,
) -> Features:
    units = {"none": engine_of((0.0,) * len(ENGINE), "unit")}
    units |= {name: engine_of(tuple(float(name == n) for n in ENGINE), "unit") for name in ENGINE}
    unit_coefficients = replace(coefficients, engines=units)
    times = np.empty((len(deployments), 4, len(ENGINE) + 1))
    decode = np.zeros((len(deployments), POINTS, len(ENGINE) + 1))
    for i, deployment in enumerate(deployments):
        models = [maker(deployment, name, unit_coefficients) for name in (*ENGINE, "none")]
        running = load_of(deployment, serving)[0]
        times[i] = _by_engine_number([np.array(step_times(deployment, m, running)) for m in models])
        if deployment.decode is not None and deployment.decode.count == 0:
            requests = deployment.concurrency ** (np.arange(POINTS) / (POINTS - 1))
            decode[i] = _by_engine_number([_decode_seconds(deployment, m, requests) for m in models])
    workers = [d.decode or d.prefill for d in deployments]
    replicas = np.array([float(w.parallel.dp) for w in workers])
    hidden = Hidden(
        concurrency=np.array([d.concurrency for d in deployments]),
        prefill_replicas=np.array([float(d.prefill.parallel.dp) for d in deployments]),
        decode_replicas=replicas,
        room=np.array([kv_requests(d, w) for d, w in zip(deployments, workers, strict=True)]) / replicas,
        decode=decode,
    )
    ttft = np.array([d.ttft_ms for d in deployments]) / 1e3
    tpot = np.array([d.tpot_ms for d in deployments]) / 1e3
    return Features(tuple(deployments), times, loads(deployments, serving), ttft, tpot, hidden)


def _decode_seconds(deployment: Deployment, cost_model: StageCostModel, requests: Floats) -> Floats:
    """Seconds of an iteration of the decode worker with `requests` requests, (n,)."""
    worker = deployment.decode or deployment.prefill
    return np.array([step_times(deployment, cost_model, n / worker.parallel.dp)[0] for n in requests])


def _by_engine_number(seconds: list[Floats]) -> Floats:
    """(m, len(ENGINE) + 1) from times under each engine number alone and under none."""
    found = np.stack(seconds, axis=-1)
    found[:, :-1] -= found[:, -1:]
    return found


def engine_of(values: Sequence[float], evidence: str) -> EngineOverhead:
    """`values` in the order of ENGINE."""
    flat, layer, prompt = values[:6], values[6:9], values[9:12]
    return EngineOverhead(
        evidence=evidence,
        **dict(zip(FLAT, flat, strict=True)),
        layer=LayerOverhead(*layer),
        prompt_layer=LayerOverhead(*prompt),
    )


def fit_engine(rows: Features, evidence: str, base: ServingOverhead, parent: Setup | None = None) -> Setup:
    """Robust fit of log TTFT and log TPOT of all `rows`, kept like `parent` if one is given; how unstated workers are
    counted is taken from `base`."""

    def setup(x: Floats) -> tuple[list[float], ServingOverhead]:
        values = np.exp(x).tolist()
        return values[: len(ENGINE)], replace(base, **dict(zip(SERVING, values[len(ENGINE) :], strict=True)))

    def off(x: Floats) -> Floats:
        engine, serving = setup(x)
        ttft, tpot = predict(rows, engine, serving)
        return np.concatenate([np.log(ttft / rows.ttft_s), np.log(tpot / rows.tpot_s)])

    start = START if parent is None else (*engine_values(parent.engine), *(getattr(parent.serving, n) for n in SERVING))
    found, serving = setup(_fit(off, start, LOW, HIGH, parent is not None))
    return Setup(engine_of([float(f"{v:.4g}") for v in found], evidence), rounded(serving, SERVING))


def fit_unstated(rows: Features, setup: Setup, alike: bool) -> Setup:
    """`setup` with the usual clients and hand-off of deployments that hide how many workers they have, fitted to such
    ones among `rows`; kept like what `setup` says of them if `alike`."""
    hidden = ~rows.load.stated
    if not hidden.any():
        return setup
    own, engine = rows.take(hidden), engine_values(setup.engine)

    def serving(x: Floats) -> ServingOverhead:
        return replace(setup.serving, **dict(zip(UNSTATED, np.exp(x).tolist(), strict=True)))

    def off(x: Floats) -> Floats:
        ttft, tpot = predict(own.under(serving(x)), engine, serving(x))
        return np.concatenate([np.log(ttft / own.ttft_s), np.log(tpot / own.tpot_s)])

    starts = (tuple(getattr(setup.serving, n) for n in UNSTATED),) if alike else UNSTATED_STARTS
    fits = [_fit(off, start, UNSTATED_LOW, UNSTATED_HIGH, alike) for start in starts]
    best = min(fits, key=lambda x: float(np.abs(off(x)).sum()))
    return replace(setup, serving=rounded(serving(best), UNSTATED))


def _fit(
    off: Callable[[Floats], Floats], start: Sequence[float], low: Sequence[float], high: Sequence[float], alike: bool
) -> Floats:
    """Logarithms of the numbers that make the log errors `off` small; `alike`: and stay near `start`."""
    bounds = (np.log(low), np.log(high))
    begin = np.clip(np.log(start), *bounds)

    def residual(x: Floats) -> Floats:
        far = off(x) / SHARPNESS
        robust = np.sign(far) * np.sqrt(2 * (np.sqrt(1 + far**2) - 1))  # squares to twice the soft absolute error
        return np.concatenate([robust, np.sqrt(LIKENESS) * (x - begin)]) if alike else robust

    return np.asarray(least_squares(residual, begin, bounds=bounds).x)


def rounded(serving: ServingOverhead, names: Sequence[str]) -> ServingOverhead:
    return replace(serving, **{n: float(f"{getattr(serving, n):.4g}") for n in names})


def predict(rows: Features, engine: Sequence[float], serving: ServingOverhead) -> tuple[Floats, Floats]:
    decode, mixed, prompt, chunk = (rows.times @ np.array([*engine, 1.0])).T
    return latencies(StepTimes(decode, mixed, prompt, chunk), rows.load, serving)


def engine_values(engine: EngineOverhead) -> list[float]:
    flat = [getattr(engine, n) for n in FLAT]
    return [*flat, *(getattr(part, n) for part in (engine.layer, engine.prompt_layer) for n in LAYER)]
