"""The figures of a simulation that are read first."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from control.simulator.report.fate import Fate, Judged, share_within
from control.simulator.report.over_time import spread
from control.simulator.report.work import Work, work_of
from control.simulator.result import Facts, SimulationResult
from control.simulator.serving.requests import ANY_LENGTH
from templates_lib.values.slo import Slo

PERCENTILES = (50.0, 90.0, 95.0, 99.0)


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Percentiles of requests that came so far; null: there was none."""

    p50: float | None
    p90: float | None
    p95: float | None
    p99: float | None
    at_objective: float | None
    """Value at the percentile that the objective names."""


@dataclass(frozen=True, slots=True)
class ModelSummary:
    name: str
    makes_text: bool
    """False: `ttft_ms` is the time to the whole answer, of which tokens are not counted."""
    slo: Slo
    requests: int
    fates: Mapping[str, int]
    """What became of them (`report.fate`), adding up to `requests`."""
    within_share: float | None
    """Share of requests whose fate is known; null: there was none."""
    holds: bool | None
    """Whether `within_share` reaches the objective's percentile."""
    ttft_ms: Percentiles
    tpot_ms: Percentiles
    queued_ms: Percentiles
    goodput_requests_per_s: float
    """Requests within their objectives, over the whole length."""
    goodput_tokens_per_s: float
    """Their output tokens."""
    output_tokens_per_s: float
    prompt_tokens_per_s: float
    unmet_requests_per_s: float
    """Demand that plans left unserved, as a mean over time."""
    planned_share: float | None
    """Share of the expected demand that plans served; null: nothing was planned for."""
    restarts: int
    preemptions: int


@dataclass(frozen=True, slots=True)
class Fingerprints:
    """Two runs whose fingerprints agree had the same input, or the same result."""

    medley: str
    """Its version."""
    requests: str
    """Hash of every request."""
    plans: str
    """Hash of what each epoch was held to cost and to leave unserved."""
    served: str
    """Hash of what became of every request."""


@dataclass(frozen=True, slots=True)
class Summary:
    facts: Facts
    hours: float
    spent_usd: float
    spent_usd_per_hour: float
    planned_usd_per_hour: float
    """Mean over time of the plans in force: rent and traffic."""
    init_usd_per_hour: float
    """Mean over time of start-ups, spread over the adjustment interval."""
    requests: int
    within_share: float | None
    goodput_tokens_per_s: float
    models: tuple[ModelSummary, ...]
    events: Mapping[str, int]
    """Kind → how many."""
    plans: int
    median_solve_s: float
    plane_wall_s: float
    serving_wall_s: float
    fingerprints: Fingerprints

    @property
    def makes_text(self) -> bool:
        return any(model.makes_text for model in self.models)


def summarise(result: SimulationResult, judged: Judged) -> Summary:
    length_s = result.facts.length_s
    work = work_of(result, judged)
    models = tuple(_model(result, judged, work, n) for n in range(len(result.models)))
    weights = np.array([e.until_s - e.from_s for e in result.epochs])

    def over_time(values: list[float]) -> float:
        return float(np.average(values, weights=weights)) if weights.sum() else 0.0

    kinds = [event.kind for event in result.events if event.at_s >= 0]
    return Summary(
        facts=result.facts,
        hours=length_s / 3600,
        spent_usd=result.spent_usd,
        spent_usd_per_hour=3600 * result.spent_usd / length_s,
        planned_usd_per_hour=over_time([e.planned_usd_per_hour for e in result.epochs]),
        init_usd_per_hour=over_time([e.init_usd_per_hour for e in result.epochs]),
        requests=len(result.requests),
        within_share=_known(share_within(judged.fate)),
        goodput_tokens_per_s=sum(m.goodput_tokens_per_s for m in models),
        models=models,
        events={kind: kinds.count(kind) for kind in sorted(set(kinds))},
        plans=len({e.plan_id for e in result.epochs if e.plan_id}),
        median_solve_s=float(np.median([e.solve_s for e in result.epochs if e.solve_s] or [0.0])),
        plane_wall_s=result.plane_wall_s,
        serving_wall_s=result.serving_wall_s,
        fingerprints=_fingerprints(result),
    )


def _model(result: SimulationResult, judged: Judged, work: Work, place: int) -> ModelSummary:
    model, served, length_s = result.models[place], result.served, result.facts.length_s
    own = result.requests.app == result.requests.apps.index(model.name) if model.name in result.requests.apps else (
        np.zeros(len(result.requests), bool)
    )  # fmt: skip
    fate = judged.fate[own]
    share = share_within(fate)
    edges = np.array([0.0, length_s])

    def tokens_per_s(which: NDArray[np.bool_]) -> float:
        which = which & model.makes_text
        spans = (work.begin_s[which], work.end_s[which], work.output_tokens[which])
        return float(spread(edges, *spans)[0]) / length_s

    planned = [(e.until_s - e.from_s, e) for e in result.epochs]
    wanted = sum(s * e.planned_requests_per_s.get(model.name, 0.0) for s, e in planned)
    unmet = sum(s * e.unmet_requests_per_s.get(model.name, 0.0) for s, e in planned)
    percentile = model.slo.percentile
    return ModelSummary(
        name=model.name,
        makes_text=model.makes_text,
        slo=model.slo,
        requests=int(own.sum()),
        fates={f.name.lower(): int((fate == f).sum()) for f in Fate},
        within_share=_known(share),
        holds=None if np.isnan(share) else bool(share >= percentile / 100),
        ttft_ms=_percentiles(judged.ttft_ms[own], percentile),
        tpot_ms=_percentiles(judged.tpot_ms[own], percentile),
        queued_ms=_percentiles(1000 * served.queued_s[own], percentile),
        goodput_requests_per_s=float((fate == Fate.WITHIN).sum()) / length_s,
        goodput_tokens_per_s=tokens_per_s(own & work.good),
        output_tokens_per_s=tokens_per_s(own & work.begun),
        prompt_tokens_per_s=float(result.requests.prompt_tokens[own & work.begun & model.makes_text].sum()) / length_s,
        unmet_requests_per_s=unmet / length_s,
        planned_share=1 - unmet / wanted if wanted else None,
        restarts=int(served.restarts[own].sum()),
        preemptions=int(served.preemptions[own].sum()),
    )


def _percentiles(values: NDArray[np.float64], objective: float) -> Percentiles:
    values = values[~np.isnan(values)]
    if not len(values):
        return Percentiles(None, None, None, None, None)
    return Percentiles(*(float(v) for v in np.percentile(values, [*PERCENTILES, objective])))


def _known(share: float) -> float | None:
    return None if np.isnan(share) else share


def _fingerprints(result: SimulationResult) -> Fingerprints:
    requests, served = result.requests, result.served
    columns: list[NDArray[Any]] = [requests.app, requests.arrival_s, requests.prompt_tokens, requests.output_tokens]
    columns.append(requests.rank)
    if (requests.most_tokens < ANY_LENGTH).any():  # else they are what they were before clients could say it
        columns.append(requests.most_tokens)
    plans = [(e.from_s, e.planned_usd_per_hour, sorted(e.unmet_requests_per_s.items())) for e in result.epochs]
    return Fingerprints(
        medley=version("medley-serving"),
        requests=_digest(repr(requests.apps).encode(), *(column.tobytes() for column in columns)),
        plans=_digest(repr(plans).encode()),
        served=_digest(served.outcome.tobytes(), served.first_token_s.tobytes(), served.finish_s.tobytes()),
    )


def _digest(*parts: bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()[:32]
