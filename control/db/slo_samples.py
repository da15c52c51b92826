"""Latencies of gateways, minute by minute and later hour by hour: histograms, so that any share of any span can be read
off."""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from sqlalchemy import Row, Select, Table, delete, func, select
from sqlalchemy.dialects.postgresql import insert

from control.db.api_tables import slo_sample
from control.db.database import Database
from control.db.series_tables import slo_hour

MINUTES_KEPT = timedelta(days=14)
HOURS_KEPT = timedelta(days=400)
_SETTLED = timedelta(minutes=5)
"""Time after its end for which a minute may still be sampled."""
_HOURS_AT_ONCE = 48
"""Hours that one roll-up makes: a database of the release before has two weeks of minutes."""


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
        rows = self.database.read(_of(slo_sample, models, since, until))
        return tuple(_sample(row.gateway, row) for row in rows)

    def coarse(self, models: Collection[str], since: datetime, until: datetime) -> tuple[SloSample, ...]:
        """List samples as `read`, of hours where minutes have become hours, all gateways together (`gateway` is empty),
        and of minutes after the last of those."""
        rows = self.database.read(_of(slo_hour, models, since, until))
        hours = tuple(_sample("", row) for row in rows)
        rolled = self._rolled_until()
        return hours + self.read(models, since if rolled is None else max(since, rolled), until)

    def roll_up(self, now: datetime) -> None:
        """Make hours of the minutes of each hour that is over; drop minutes and hours that are too old. Any number of
        processes may."""
        rolled, until = self._rolled_until(), (now - _SETTLED).replace(minute=0, second=0, microsecond=0)
        hour = func.date_trunc("hour", slo_sample.c.begins_at, "UTC")
        query = select(hour).distinct().where(slo_sample.c.begins_at < until).order_by(hour).limit(_HOURS_AT_ONCE)
        if rolled is not None:
            query = query.where(slo_sample.c.begins_at >= rolled)
        for begins_at in self.database.read_column(query):
            self._roll_up_hour(begins_at.astimezone(UTC))
        self.database.write(delete(slo_sample).where(slo_sample.c.begins_at < now - MINUTES_KEPT))
        self.database.write(delete(slo_hour).where(slo_hour.c.begins_at < now - HOURS_KEPT))

    def _roll_up_hour(self, begins_at: datetime) -> None:
        minutes: dict[str, list[SloSample]] = {}
        until = begins_at + timedelta(hours=1)
        query = select(slo_sample).where(slo_sample.c.begins_at >= begins_at, slo_sample.c.begins_at < until)
        for row in self.database.read(query):
            minutes.setdefault(row.model, []).append(_sample(row.gateway, row))
        rows = [
            {
                "model": model,
                "begins_at": begins_at,
                "ttft": _histogram(added(each.ttft for each in own)),
                "tpot": _histogram(added(each.tpot for each in own)),
                "judged": all_judged(one for each in own for one in each.judged),
            }
            for model, own in minutes.items()
        ]
        self.database.write(insert(slo_hour).on_conflict_do_nothing(), rows)

    def _rolled_until(self) -> datetime | None:
        (newest,) = self.database.read_column(select(func.max(slo_hour.c.begins_at)))
        return None if newest is None else newest + timedelta(hours=1)


def _of(table: Table, models: Collection[str], since: datetime, until: datetime) -> Select[Any]:
    own = table.c.model.in_(models), table.c.begins_at >= since, table.c.begins_at < until
    return select(table).where(*own).order_by(table.c.begins_at)


def _sample(gateway: str, row: Row[Any]) -> SloSample:
    return SloSample(
        gateway,
        row.model,
        row.begins_at,
        msgspec.json.decode(row.ttft, type=LatencyHistogram),
        msgspec.json.decode(row.tpot, type=LatencyHistogram),
        () if row.judged is None else msgspec.json.decode(row.judged, type=tuple[Judged, ...]),
    )


def _histogram(counts: Mapping[float, float]) -> LatencyHistogram:
    return LatencyHistogram(tuple(None if math.isinf(bound) else bound for bound in counts), tuple(counts.values()))


def all_judged(parts: Iterable[Judged]) -> list[Judged]:
    """Return all answers by work class and objective."""
    total: dict[tuple[str, str], Judged] = {}
    for part in parts:
        key = part.work_class, part.objective
        before = total.get(key, Judged(*key, 0.0, 0.0))
        total[key] = Judged(*key, before.answers + part.answers, before.kept + part.kept)
    return [total[key] for key in sorted(total)]


def added(parts: Iterable[LatencyHistogram]) -> dict[float, float]:
    """Upper bound in seconds → observations, of histograms that may differ in their bounds."""
    total: dict[float, float] = {}
    for part in parts:
        for bound, count in zip(part.bounds_s, part.counts, strict=True):
            key = math.inf if bound is None else bound
            total[key] = total.get(key, 0.0) + count
    return dict(sorted(total.items()))
