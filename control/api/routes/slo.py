"""Attainment of objectives over time."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from control.api.attainment import percentile_s
from control.api.documented import problems
from control.api.fleet_document import document_of
from control.api.guarded_route import ServicesOf, api_router
from control.api.periods import Points, Since, Until, parts, period
from control.api.text import PathName
from control.db.fleets import PostgresFleets
from control.db.slo_samples import PostgresSloSamples, SloSample, added, all_judged
from control.fleet.kept_promises import KeptPromise, kept_promises
from control.fleet_file.model_section import SloSection, slos_of
from control.ledger.period import Period
from control.lifecycle.fleet import may_serve
from policies.attainment import burn_rate, share_within

router = api_router("slo")


class Attainment(BaseModel):
    """Attainment of one objective in one span; null: nothing was observed."""

    observed: int
    p50_ms: float | None
    p99_ms: float | None = Field(description="null too when it is beyond what gateways tell apart.")
    within: float | None = Field(description="Share of the observations that kept the objective.")
    burn_rate: float | None = Field(description="1: missed just as often as the objective allows.")


class SloPoint(BaseModel):
    since: datetime
    until: datetime
    ttft: Attainment
    tpot: Attainment


class WorkSlo(BaseModel):
    """Attainment of one objective in the whole span, as gateways judged answers one by one."""

    model_config = ConfigDict(from_attributes=True)

    work_class: str = Field(description="Empty: an answer for which no route was found.")
    objective: Literal["ttft", "tpot"]
    answers: int
    kept: int


class KeptSlo(BaseModel):
    """Share of the answers that kept one objective in the whole span."""

    objective: Literal["ttft", "tpot"]
    answers: int
    share: float
    low: float = Field(description="The share may be as low by chance, 3.5 standard errors away; `high` as high.")
    high: float


class CorrectionOf(BaseModel):
    """What the reconcile loop made of answers that kept more or less than was promised."""

    factor: float = Field(description="Share of the certified capacity that plans count on; 1: all of it, again.")
    changed_at: datetime
    reason: str


class PromiseOf(BaseModel):
    """Promise of a work class by the plan in force, beside what was kept."""

    work_class: str
    percentile: float = Field(description="Percent of the requests that are promised to keep the objective.")
    share: float = Field(description="Share that did when the plan was simulated at its planned rate.")
    requests: int = Field(description="Simulated requests that were counted.")
    kept: list[KeptSlo] = Field(description="By objective; empty: no answer was counted.")
    correction: CorrectionOf | None = Field(description="null: never corrected.")


class ModelSlo(BaseModel):
    model: str
    ttft_ms: float
    tpot_ms: float
    percentile: float
    ttft: Attainment = Field(description="In the whole span.")
    tpot: Attainment = Field(description="In the whole span.")
    items: list[SloPoint] = Field(description="The same by equal parts of the span.")
    work: list[WorkSlo] = Field(description="By the work class that decides the objective.")
    promises: list[PromiseOf] = Field(description="Empty where the plan in force promises no percentile.")


class FleetSlo(BaseModel):
    models: list[ModelSlo]


@router.get("/fleets/{fleet}/slo", responses=problems(404))
def get_slo(
    fleet: PathName, services: ServicesOf, points: Points = 60, since: Since = None, until: Until = None
) -> FleetSlo:
    """TTFT and TPOT as gateways measured them, against the objectives, and promises beside what was kept; of the last
    hour unless the query says more.

    Needs `medley api --gateway URL`: without it nothing is observed. Where an objective grows with the prompt, its part
    for an empty one counts.
    """
    fleets = PostgresFleets(services.database)
    record = fleets.load(fleet)
    slos = slos_of(document_of(record.spec))
    span = period(since, until, services.clock(), timedelta(hours=1))
    # What was observed is by a model's name, and of the fleet that serves it.
    own = list(slos) if may_serve(record, fleets.target(fleet)) else []
    samples = PostgresSloSamples(services.database).read(own, span.since, span.until)
    promises = kept_promises(services.database, fleet, span.since, span.until)
    return FleetSlo(
        models=[
            _model(name, slo, span, points, [s for s in samples if s.model == name], promises)
            for name, slo in slos.items()
        ]
    )


def _model(
    name: str, slo: SloSection, span: Period, points: int, samples: list[SloSample], promises: Iterable[KeptPromise]
) -> ModelSlo:
    whole = _point(span, slo, samples)
    return ModelSlo(
        model=name,
        ttft_ms=slo.ttft_ms,
        tpot_ms=slo.tpot_ms,
        percentile=slo.percentile,
        ttft=whole.ttft,
        tpot=whole.tpot,
        items=[_point(part, slo, samples) for part in parts(span, points)],
        work=[WorkSlo.model_validate(each) for each in all_judged(one for s in samples for one in s.judged)],
        promises=[_promise(each) for each in promises if each.model == name],
    )


def _promise(each: KeptPromise) -> PromiseOf:
    promised, correction = each.promised, each.correction
    return PromiseOf(
        work_class=each.work_class,
        percentile=promised.percentile,
        share=promised.share,
        requests=promised.requests,
        kept=[
            KeptSlo(
                objective="tpot" if one.objective == "tpot" else "ttft",
                answers=int(one.kept.answers),
                share=one.kept.share,
                low=one.kept.low,
                high=one.kept.high,
            )
            for one in each.objectives
        ],
        correction=None
        if correction is None
        else CorrectionOf(factor=correction.factor, changed_at=correction.changed_at, reason=correction.reason),
    )


def _point(part: Period, slo: SloSection, samples: list[SloSample]) -> SloPoint:
    mine = [sample for sample in samples if part.since <= sample.begins_at < part.until]
    return SloPoint(
        since=part.since,
        until=part.until,
        ttft=_attainment(added(sample.ttft for sample in mine), slo.ttft_ms, slo.percentile),
        tpot=_attainment(added(sample.tpot for sample in mine), slo.tpot_ms, slo.percentile),
    )


def _attainment(histogram: dict[float, float], limit_ms: float, percentile: float) -> Attainment:
    p50, p99 = percentile_s(histogram, 50), percentile_s(histogram, 99)
    within = share_within(histogram, limit_ms / 1000)
    return Attainment(
        observed=int(sum(histogram.values())),
        p50_ms=None if p50 is None else 1000 * p50,
        p99_ms=None if p99 is None else 1000 * p99,
        within=within,
        burn_rate=burn_rate(within, percentile),
    )
