"""Time series: traffic, latencies against objectives, load and cost."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Literal

from fastapi import Query
from pydantic import BaseModel, Field

from control.api.attainment import percentile_s
from control.api.documented import problems
from control.api.guarded_route import ServicesOf, api_router
from control.api.periods import MAX_POINTS, Since, Until, period
from control.api.text import QueryText
from control.db.load_series import Level
from control.db.series_step import SeriesOf, Steps
from control.db.slo_samples import LatencyHistogram, SloSample, added, all_judged
from control.db.traffic_series import Counted, traffic_series
from control.fleet.kept_promises import KeptPromise, kept_promises
from control.fleet.series import (
    ServedModel,
    latency_samples,
    load_series,
    served_models,
    total_traffic,
    utilisations,
    with_architectures,
)
from policies.attainment import share_within
from templates_lib.values.work import Phase

router = api_router("series")
MostSteps = Annotated[int, Query(ge=1, le=MAX_POINTS, description="Steps at most.")]
Values = list[float | None]
_PERCENTILES = (50.0, 90.0, 99.0)


class TrafficOf(BaseModel):
    """By step, as gateways counted it; null: no gateway reported."""

    requests_per_s: Values = Field(description="Asked, refused ones among them.")
    refused_per_s: Values
    prompt_tokens_per_s: Values = Field(description="Of prompts that were served.")
    output_tokens_per_s: Values


class LatencyOf(BaseModel):
    """One objective by step; null: nothing was observed."""

    objective: Literal["ttft", "tpot"]
    limit_ms: float = Field(description="The objective, of an empty prompt where it grows with the prompt.")
    percentile: float = Field(description="Percent of the requests that are to keep it.")
    p50_ms: Values
    p90_ms: Values
    p99_ms: Values = Field(description="null too when it is beyond what gateways tell apart.")
    kept: Values = Field(description="Share that kept it: as gateways judged answers, else read off the histogram.")
    answers: list[int]
    promised: float | None = Field(
        description="Share that the plan in force promises, the least of its classes; null: it promises none."
    )
    certified: float | None = Field(description="Share that kept it when that plan was simulated.")


class ModelSeries(BaseModel):
    fleet: str
    model: str
    traffic: TrafficOf
    utilisation: Values = Field(
        description="What was served of what ready instances were planned to sustain, of the class of work that is "
        "nearest to its capacity. null: nobody counted, or nothing was ready."
    )
    latencies: list[LatencyOf] = Field(description="Empty: its fleet does not serve.")


class LoadOf(BaseModel):
    """By step, means over the instances that reported; null: nobody looked."""

    instances: Values
    running: Values = Field(description="Requests.")
    waiting: Values
    kv_used: Values = Field(description="Share of all KV blocks. null: there are none.")
    cpu: Values = Field(description="Processors that engines keep busy, of one instance on average.")


class Series(BaseModel):
    since: datetime
    until: datetime = Field(description="End of what is known, within the last step.")
    step_s: int
    at: list[datetime] = Field(description="When each step begins.")
    traffic: TrafficOf | None = Field(description="null: gateways do not know zones and instances.")
    models: list[ModelSeries] = Field(description="Empty where one zone or instance is asked for.")
    load: LoadOf
    usd_per_hour: list[float] = Field(description="On average; leaks included where all is asked for.")


@router.get("/series", responses=problems())
def get_series(
    services: ServicesOf,
    points: MostSteps = 120,
    since: Since = None,
    until: Until = None,
    fleet: QueryText = None,
    model: QueryText = None,
    zone: QueryText = None,
    instance: QueryText = None,
) -> Series:
    """Traffic, latencies against objectives, load and cost over time; of the last hour unless the query says more.

    Steps are whole ones of the clock, a minute at the shortest, and an hour where they begin more than a day ago: hours
    are kept for 400 days, the load of single instances for two.
    """
    now = services.clock()
    span = period(since, until, now, timedelta(hours=1))
    steps, database = Steps.over(span.since, span.until, points, now), services.database
    of = with_architectures(database, SeriesOf(fleet, model, None, zone, instance))
    load = load_series(database, steps, of)
    traffic, models = None, list[ModelSeries]()
    if zone is None and instance is None:
        counted = traffic_series(database, steps, of)
        used = utilisations(database, steps, of, counted)
        served = served_models(database, of)
        seen = latency_samples(database, steps, served)
        promises = {name: kept_promises(database, name, steps.until, steps.until) for name in {s.fleet for s in served}}
        nothing = [Counted() for _ in range(steps.count)]
        traffic = _traffic(total_traffic(counted.models.values(), steps.count), counted.watched_s)
        models = [
            ModelSeries(
                fleet=each.fleet,
                model=each.name,
                traffic=_traffic(counted.models.get((each.fleet, each.name), nothing), counted.watched_s),
                utilisation=used.get((each.fleet, each.name), [None] * steps.count),
                latencies=_latencies(each, seen[each.name], promises[each.fleet]) if each.serves else [],
            )
            for each in served
        ]
    return Series(
        since=steps.since,
        until=steps.until,
        step_s=steps.step_s,
        at=steps.at,
        traffic=traffic,
        models=models,
        load=_load(load.levels),
        usd_per_hour=load.usd_per_hour,
    )


def _traffic(parts: Sequence[Counted], watched_s: Sequence[float]) -> TrafficOf:
    def rates(count: Callable[[Counted], int]) -> Values:
        return [count(part) / own if own else None for part, own in zip(parts, watched_s, strict=True)]

    return TrafficOf(
        requests_per_s=rates(lambda part: part.requests),
        refused_per_s=rates(lambda part: part.refused),
        prompt_tokens_per_s=rates(lambda part: part.prompt_tokens),
        output_tokens_per_s=rates(lambda part: part.output_tokens),
    )


def _besides(phase: Phase, promises: Iterable[KeptPromise]) -> list[KeptPromise]:
    """Those of work classes of any other phase."""
    return [each for each in promises if not each.work_class.endswith(f"/{phase}")]


def _latencies(
    of: ServedModel, seen: Sequence[Sequence[SloSample]], promises: Iterable[KeptPromise]
) -> list[LatencyOf]:
    own = [each for each in promises if each.model == of.name]
    return [
        _latency("ttft", of.slo.ttft_ms, of, seen, _besides(Phase.DECODE, own)),
        _latency("tpot", of.slo.tpot_ms, of, seen, _besides(Phase.PREFILL, own)),
    ]


def _latency(
    objective: Literal["ttft", "tpot"],
    limit_ms: float,
    of: ServedModel,
    seen: Sequence[Sequence[SloSample]],
    promises: Sequence[KeptPromise],
) -> LatencyOf:
    def histogram_of(sample: SloSample) -> LatencyHistogram:
        return sample.ttft if objective == "ttft" else sample.tpot

    histograms = [added(histogram_of(sample) for sample in samples) for samples in seen]
    p50, p90, p99 = (
        [None if (found := percentile_s(each, p)) is None else 1000 * found for each in histograms]
        for p in _PERCENTILES
    )
    return LatencyOf(
        objective=objective,
        limit_ms=limit_ms,
        percentile=of.slo.percentile,
        p50_ms=p50,
        p90_ms=p90,
        p99_ms=p99,
        kept=[
            _kept(objective, limit_ms, samples, histogram) for samples, histogram in zip(seen, histograms, strict=True)
        ],
        answers=[int(sum(each.values())) for each in histograms],
        promised=min((each.promised.percentile / 100 for each in promises), default=None),
        certified=min((each.promised.share for each in promises), default=None),
    )


def _kept(objective: str, limit_ms: float, samples: Sequence[SloSample], histogram: dict[float, float]) -> float | None:
    judged = [each for each in all_judged(one for s in samples for one in s.judged) if each.objective == objective]
    answers = sum(each.answers for each in judged)
    return sum(each.kept for each in judged) / answers if answers else share_within(histogram, limit_ms / 1000)


def _load(levels: Sequence[Level | None]) -> LoadOf:
    def values(read: Callable[[Level], float | None]) -> Values:
        return [None if level is None else read(level) for level in levels]

    return LoadOf(
        instances=values(lambda level: level.instances),
        running=values(lambda level: level.running),
        waiting=values(lambda level: level.waiting),
        kv_used=values(lambda level: level.kv_used / level.kv_blocks if level.kv_blocks else None),
        cpu=values(lambda level: level.cpu / level.instances if level.instances else None),
    )
