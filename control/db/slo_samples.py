"""Latencies of gateways, minute by minute: histograms, so that any share of any span can be read off later."""

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

import msgspec
from sqlalchemy import delete, select
from sqlalchemy.dialects.postgresql import insert

from control.db.api_tables import slo_sample
from control.db.database import Database


@dataclass(frozen=True, slots=True)
class LatencyHistogram:
    """Counts of observations by upper bound in seconds, each bucket by itself, the last bound infinite (null)."""

    bounds_s: tuple[float | None, ...]
    counts: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Judged:
    """Answers whose time an objective judges, by the work class that decides it."""

    work_class: str
    """Empty: no route was found."""
    objective: str
    """`ttft` or `tpot`."""
    answers: float
    kept: float
    """Those of them that were in time."""


@dataclass(frozen=True, slots=True)
class SloSample:
    gateway: str
    model: str
    begins_at: datetime
    """A whole minute; the sample is of the minute that follows."""
    ttft: LatencyHistogram
    tpot: LatencyHistogram
    judged: tuple[Judged, ...] = ()


@dataclass(frozen=True, slots=True)
class PostgresSloSamples:
    """Every method also raises DatabaseUnavailableError."""

    database: Database

    def add(self, samples: Iterable[SloSample]) -> None:
        """Add samples; of a minute that another process has sampled already, nothing."""
        rows = [
            {name: getattr(sample, name) for name in ("gateway", "model", "begins_at", "ttft", "tpot", "judged")}
            for sample in samples
        ]
        if rows:
            self.database.write(insert(slo_sample).on_conflict_do_nothing(), rows)

    def read(self, models: Collection[str], since: datetime, until: datetime) -> tuple[SloSample, ...]:
        """List the samples that began from `since` on and before `until`, oldest first."""
        query = select(slo_sample).where(
            slo_sample.c.model.in_(models), slo_sample.c.begins_at >= since, slo_sample.c.begins_at < until
        )
        rows = self.database.read(query.order_by(slo_sample.c.begins_at))
        return tuple(
            SloSample(
                row.gateway,
                row.model,
                row.begins_at,
                msgspec.json.decode(row.ttft, type=LatencyHistogram),
                msgspec.json.decode(row.tpot, type=LatencyHistogram),
                () if row.judged is None else msgspec.json.decode(row.judged, type=tuple[Judged, ...]),
            )
            for row in rows
        )

    def drop_older(self, than: datetime) -> None:
        self.database.write(delete(slo_sample).where(slo_sample.c.begins_at < than))


def added(parts: Iterable[LatencyHistogram]) -> dict[float, float]:
    """Upper bound in seconds → observations, of histograms that may differ in their bounds."""
    total: dict[float, float] = {}
    for part in parts:
        for bound, count in zip(part.bounds_s, part.counts, strict=True):
            key = math.inf if bound is None else bound
            total[key] = total.get(key, 0.0) + count
    return dict(sorted(total.items()))
