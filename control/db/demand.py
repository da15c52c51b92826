"""Offered load in PostgreSQL: reports of gateways, the hours they become, and who waits."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import numpy as np
from sqlalchemy import Connection, delete, func, literal, select, true
from sqlalchemy.dialects.postgresql import insert

from agents.messages.to_demand_desk import MAX_KEYS, Offered, OfferedLine, OfferedWork, Recent, ServedKey, Waiting
from control.db.database import Database
from control.db.demand_tables import (
    COUNTS,
    demand_hour,
    demand_line,
    demand_recent,
    demand_report,
    demand_waiting,
    key_use,
)
from policies.demand_history import DemandHistory
from policies.metered_work import REQUEST, text_classes
from templates_lib.values.work import Unit

LATEST = timedelta(hours=26)
"""A report that is older is not taken: gateways keep a day, and what has become an hour must not be counted again."""
KEPT = timedelta(hours=48)
"""Time after which reports become hours."""
HOURS_KEPT = timedelta(days=400)
SILENT = timedelta(seconds=20)
"""Age of a report of waiting requests, or of the last seconds, from which it counts no more: gateways send one every
few seconds."""
SETTLED = timedelta(seconds=15)
"""Time after its end for which an interval is still on its way from the gateways."""
_SUMS = [func.sum(demand_line.c[name]).label(name) for name in COUNTS]


@dataclass(frozen=True, slots=True)
class PostgresDemand:
    """Every method also raises DatabaseUnavailableError."""

    database: Database

    def record(self, reports: Iterable[tuple[str, Offered]], now: datetime) -> None:
        """(gateway, report). The same again changes nothing, an older revision neither."""
        with self.database.transaction() as connection:
            for gateway, report in reports:
                started_at = datetime.fromtimestamp(report.started_s, UTC)
                if now - started_at <= LATEST:
                    _record(connection, f"{gateway}/{report.life}", started_at, report, now)

    def hear_waiting(self, gateway: str, waiting: Waiting, now: datetime) -> None:
        """All that is held there; `gateway`: one process of it."""
        rows = [
            {"fleet": line.fleet, "gateway": gateway, "app": line.app, "requests": line.requests, "heard_at": now}
            for line in waiting.lines
        ]
        with self.database.transaction() as connection:
            connection.execute(delete(demand_waiting).where(demand_waiting.c.gateway == gateway))
            if rows:
                connection.execute(insert(demand_waiting).on_conflict_do_nothing(), rows)

    def waiting(self, fleet: str, now: datetime) -> dict[str, int]:
        """App → requests that gateways hold for it because nothing serves it."""
        held = func.sum(demand_waiting.c.requests).label("requests")
        query = select(demand_waiting.c.app, held).group_by(demand_waiting.c.app)
        query = query.where(demand_waiting.c.fleet == fleet, demand_waiting.c.heard_at > now - SILENT)
        return {row.app: int(row.requests) for row in self.database.read(query) if row.requests}

    def hear_recent(self, said: Mapping[str, Recent | None], now: datetime) -> None:
        """What came in the last seconds, by process of a gateway, in place of what it said before; None: it left."""
        left = [gateway for gateway, recent in said.items() if recent is None]
        rows = [
            {"gateway": gateway, "heard_at": now, "body": msgspec.json.encode(recent)}
            for gateway, recent in said.items()
            if recent is not None
        ]
        new = insert(demand_recent)
        value = {name: new.excluded[name] for name in ("heard_at", "body")}
        with self.database.transaction() as connection:
            if left:
                connection.execute(delete(demand_recent).where(demand_recent.c.gateway.in_(left)))
            if rows:
                connection.execute(new.on_conflict_do_update(index_elements=["gateway"], set_=value), rows)

    def recent(self, now: datetime) -> dict[str, tuple[datetime, Recent]]:
        """Process of a gateway → when it said what of its last seconds; of those that are not silent."""
        query = select(demand_recent).where(demand_recent.c.heard_at > now - SILENT)
        rows = self.database.read(query)
        return {row.gateway: (row.heard_at, msgspec.json.decode(row.body, type=Recent)) for row in rows}

    def histories(self, fleet: str, now: datetime, span: timedelta, step_s: int = 300) -> dict[str, DemandHistory]:
        """Return histories by `app/request_type`, steps of `step_s` seconds (a divisor of an hour) up to now. What no
        gateway reported is as it was before. An app without any report is not there."""
        end_s = int((now - SETTLED).timestamp()) // 60 * 60
        start = datetime.fromtimestamp(end_s - int(span.total_seconds()) // step_s * step_s, UTC)
        with self.database.transaction() as connection:
            watched = _watched(connection, fleet, start)
        return {key: _history(parts, start.timestamp(), end_s, step_s) for key, parts in watched.items()}

    def roll_up(self, now: datetime) -> None:
        """Reports that nobody can change any more become hours; hours do not stay for ever."""
        until = (now - KEPT).replace(minute=0, second=0, microsecond=0)
        longest = select(demand_report.c.started_at, func.max(demand_report.c.seconds).label("seconds"))
        minutes = longest.where(demand_report.c.started_at < until).group_by(demand_report.c.started_at).subquery()
        hour = func.date_trunc("hour", minutes.c.started_at, "UTC")
        watched = select(hour.label("hour"), func.sum(minutes.c.seconds).label("seconds")).group_by(hour).subquery()
        line_hour = func.date_trunc("hour", demand_line.c.started_at, "UTC")
        line = demand_line.c
        keys = [line.fleet, line_hour, line.app, line.request_type, line.project, line.work_class, line.unit]
        hours = select(*keys, watched.c.seconds, *_SUMS).where(demand_line.c.started_at < until)
        hours = hours.join_from(demand_line, watched, line_hour == watched.c.hour)
        hours = hours.group_by(*keys, watched.c.seconds)
        names = ["fleet", "started_at", "app", "request_type", "project", "work_class", "unit", "seconds", *COUNTS]
        with self.database.transaction() as connection:
            # One at a time: a second one finds the reports gone.
            connection.execute(select(func.pg_advisory_xact_lock(0x64656D)))
            connection.execute(insert(demand_hour).from_select(names, hours).on_conflict_do_nothing())
            _roll_up_keys(connection, until)
            connection.execute(delete(demand_report).where(demand_report.c.started_at < until))
            connection.execute(delete(demand_hour).where(demand_hour.c.started_at < now - HOURS_KEPT))
            connection.execute(delete(key_use).where(key_use.c.started_at < now - HOURS_KEPT))
            connection.execute(delete(demand_waiting).where(demand_waiting.c.heard_at < now - KEPT))
            connection.execute(delete(demand_recent).where(demand_recent.c.heard_at < now - KEPT))


def _record(connection: Connection, gateway: str, started_at: datetime, report: Offered, now: datetime) -> None:
    key = {"gateway": gateway, "started_at": started_at}
    value = {"seconds": report.seconds, "revision": report.revision, "reported_at": now}
    new = insert(demand_report).values(key | value)
    newer = new.on_conflict_do_update(
        index_elements=list(key), set_=value, where=demand_report.c.revision < new.excluded.revision
    )
    if connection.execute(newer.returning(true())).scalar_one_or_none() is None:
        return
    lines, uses = list[dict[str, object]](), list[dict[str, object]]()
    room = MAX_KEYS
    for line in report.lines:
        own = key | {name: getattr(line, name) for name in ("fleet", "app", "request_type", "project")}
        lines += (own | msgspec.structs.asdict(work) for work in _work(line))
        # The bound is of a whole report: each line of one that is made to harm could have as many.
        uses += (own | use for served in line.keys[:room] for use in _uses(line, served))
        room -= min(room, len(line.keys))
    for table, rows in ((demand_line, lines), (key_use, uses)):
        former = (table.c.gateway == gateway) & (table.c.started_at == started_at)
        connection.execute(delete(table).where(former))
        if rows:
            connection.execute(insert(table).on_conflict_do_nothing(), rows)


def _uses(line: OfferedLine, served: ServedKey) -> Iterator[dict[str, object]]:
    """Say what a key of a line was served, the requests first; nothing of units of which it was served none."""
    classes = (REQUEST, *((each.work_class, each.unit) for each in line.work))
    for (work_class, unit), units in zip(classes, (served.requests, *served.units), strict=False):
        if units:
            yield {"key": served.key, "work_class": work_class, "unit": unit, "served": units}


def _roll_up_keys(connection: Connection, until: datetime) -> None:
    """Make hours of what keys were served before `until`, a whole hour. The reports that told it are still there."""
    use = key_use.c
    # None is older than the oldest report: 400 days of hours need not be looked through.
    oldest = select(func.min(demand_report.c.started_at)).scalar_subquery()
    minutes = use.gateway != "", use.started_at >= oldest, use.started_at < until
    keys = [use.fleet, use.app, use.request_type, use.project, use.key, use.work_class, use.unit]
    hour = func.date_trunc("hour", use.started_at, "UTC")
    hours = select(hour, literal(""), *keys, func.sum(use.served)).where(*minutes).group_by(hour, *keys)
    names = ["started_at", "gateway", *(each.name for each in keys), "served"]
    connection.execute(insert(key_use).from_select(names, hours).on_conflict_do_nothing())
    connection.execute(delete(key_use).where(*minutes))


def _work(line: OfferedLine) -> tuple[OfferedWork, ...]:
    """Return all that a line counts, the requests first. One of the release before says of text how many tokens it had,
    and of what was refused only how many requests."""
    refused = line.refused / max(line.requests, 1)
    tokens = ((line.prompt_tokens, line.served_prompt_tokens), (line.output_tokens, line.served_output_tokens))
    former = (
        OfferedWork(each.work_class, each.unit, offered, round(refused * offered), served)
        for each, (offered, served) in zip(text_classes(line.app), tokens, strict=True)
    )
    return OfferedWork(*REQUEST, line.requests, line.refused, line.served_requests), *(line.work or former)


Work = tuple[str, Unit]
"""Work class and unit."""
Parts = dict[float, tuple[int, dict[Work, int]]]
"""Start → seconds watched, units by work, in order of time."""


def _watched(connection: Connection, fleet: str, start: datetime) -> Mapping[str, Parts]:
    """Return the parts of hours and of reports, by key."""
    found: dict[str, Parts] = defaultdict(dict)

    def read(table: Any, seconds: Any, source: Any) -> None:
        keys = (table.c.app, table.c.request_type, table.c.started_at, table.c.work_class, table.c.unit)
        query = select(*keys, seconds, func.sum(table.c.offered)).select_from(source)
        query = query.where(table.c.fleet == fleet, table.c.started_at >= start)
        query = query.group_by(*keys).order_by(table.c.started_at, table.c.work_class)  # the requests first
        for app, kind, at, work_class, unit, watched, units in connection.execute(query):
            _, own = found[f"{app}/{kind}"].setdefault(at.timestamp(), (int(watched), {}))
            own[work_class, Unit(unit)] = int(units)

    read(demand_hour, func.max(demand_hour.c.seconds), demand_hour)
    read(demand_line, func.max(demand_report.c.seconds), demand_line.join(demand_report))
    return found


def _history(parts: Parts, start_s: float, end_s: float, step_s: int) -> DemandHistory:
    times = list(parts)
    first_s = max(start_s, end_s - (end_s - times[0]) // step_s * step_s)
    steps = max(1, round((end_s - first_s) / step_s))
    work = sorted({of for _, own in parts.values() for of in own})
    sums, watched = np.zeros((len(work), steps)), np.zeros(steps)
    for at_s, until_s in zip(times, [*times[1:], end_s], strict=True):
        seconds, own = parts[at_s]
        spread = max(1, round(min(3600.0, until_s - at_s) / step_s)) if seconds > step_s else 1
        step = int((at_s - first_s) // step_s)
        to = slice(max(0, step), min(steps, step + spread))
        if to.start < to.stop:
            sums[:, to] += np.array([own.get(of, 0.0) for of in work])[:, None] / spread
            watched[to] += seconds / spread
    rates = np.divide(sums, watched, out=np.zeros_like(sums), where=watched > 0)
    known = np.maximum.accumulate(np.where(watched > 0, np.arange(steps), 0))
    by_work = dict(zip(work, rates[:, known], strict=True))
    return DemandHistory(end_s, float(step_s), by_work.pop(REQUEST), by_work)
