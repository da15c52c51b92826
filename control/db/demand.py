"""Offered load in PostgreSQL: reports of gateways, the hours they become, and who waits."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from sqlalchemy import Connection, delete, func, select, true
from sqlalchemy.dialects.postgresql import insert

from agents.messages.to_demand_desk import Offered, Waiting
from control.db.database import Database
from control.db.demand_tables import COUNTS, demand_hour, demand_line, demand_report, demand_waiting
from policies.demand_history import DemandHistory

LATEST = timedelta(hours=26)
"""A report that is older is not taken: gateways keep a day, and what has become an hour must not be counted again."""
KEPT = timedelta(hours=48)
"""Time after which reports become hours."""
HOURS_KEPT = timedelta(days=400)
SILENT = timedelta(seconds=20)
"""Age of a report of waiting requests from which it counts no more: gateways send one every few seconds."""
_SETTLED = timedelta(seconds=15)
"""Time after its end for which an interval is still on its way from the gateways."""
_SUMS = [func.sum(demand_line.c[name]).label(name) for name in COUNTS]


@dataclass(frozen=True, slots=True)
class AppUsage:
    """Usage of an app by the project that asked."""

    project: str
    app: str
    requests: int
    prompt_tokens: int
    output_tokens: int


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
        """All that is held there."""
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
        held = func.sum(demand_waiting.c.requests)
        query = select(demand_waiting.c.app, held).group_by(demand_waiting.c.app)
        query = query.where(demand_waiting.c.fleet == fleet, demand_waiting.c.heard_at > now - SILENT)
        with self.database.transaction() as connection:
            return {app: int(requests) for app, requests in connection.execute(query) if requests}

    def histories(self, fleet: str, now: datetime, span: timedelta, step_s: int = 300) -> dict[str, DemandHistory]:
        """Return histories by `app/request_type`, steps of `step_s` seconds (a divisor of an hour) up to now. What no
        gateway reported is as it was before. An app without any report is not there."""
        end_s = int((now - _SETTLED).timestamp()) // 60 * 60
        start = datetime.fromtimestamp(end_s - int(span.total_seconds()) // step_s * step_s, UTC)
        with self.database.transaction() as connection:
            watched = _watched(connection, fleet, start)
        return {key: _history(parts, start.timestamp(), end_s, step_s) for key, parts in watched.items()}

    def usage(self, fleet: str, start: datetime, end: datetime) -> tuple[AppUsage, ...]:
        """Return the usage of whole hours and reports that began from `start` up to before `end`, by project and
        app."""
        total: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
        names = ("served_requests", "served_prompt_tokens", "served_output_tokens")
        with self.database.transaction() as connection:
            for table in (demand_hour, demand_line):
                sums = [func.sum(table.c[name]) for name in names]
                query = select(table.c.project, table.c.app, *sums).group_by(table.c.project, table.c.app)
                query = query.where(table.c.fleet == fleet, table.c.started_at >= start, table.c.started_at < end)
                for project, app, *served in connection.execute(query):
                    total[project, app] = [a + int(b) for a, b in zip(total[project, app], served, strict=True)]
        return tuple(AppUsage(*key, *served) for key, served in sorted(total.items()) if any(served))

    def roll_up(self, now: datetime) -> None:
        """Reports that nobody can change any more become hours; hours do not stay for ever."""
        until = (now - KEPT).replace(minute=0, second=0, microsecond=0)
        longest = select(demand_report.c.started_at, func.max(demand_report.c.seconds).label("seconds"))
        minutes = longest.where(demand_report.c.started_at < until).group_by(demand_report.c.started_at).subquery()
        hour = func.date_trunc("hour", minutes.c.started_at)
        watched = select(hour.label("hour"), func.sum(minutes.c.seconds).label("seconds")).group_by(hour).subquery()
        line_hour = func.date_trunc("hour", demand_line.c.started_at)
        keys = [demand_line.c.fleet, line_hour, demand_line.c.app, demand_line.c.request_type, demand_line.c.project]
        hours = select(*keys, watched.c.seconds, *_SUMS).where(demand_line.c.started_at < until)
        hours = hours.join_from(demand_line, watched, line_hour == watched.c.hour)
        hours = hours.group_by(*keys, watched.c.seconds)
        columns = ["fleet", "started_at", "app", "request_type", "project", "seconds", *COUNTS]
        with self.database.transaction() as connection:
            # One at a time: a second one finds the reports gone.
            connection.execute(select(func.pg_advisory_xact_lock(0x64656D)))
            connection.execute(insert(demand_hour).from_select(columns, hours).on_conflict_do_nothing())
            connection.execute(delete(demand_report).where(demand_report.c.started_at < until))
            connection.execute(delete(demand_hour).where(demand_hour.c.started_at < now - HOURS_KEPT))
            connection.execute(delete(demand_waiting).where(demand_waiting.c.heard_at < now - KEPT))


def _record(connection: Connection, gateway: str, started_at: datetime, report: Offered, now: datetime) -> None:
    key = {"gateway": gateway, "started_at": started_at}
    value = {"seconds": report.seconds, "revision": report.revision, "reported_at": now}
    new = insert(demand_report).values(key | value)
    newer = new.on_conflict_do_update(
        index_elements=list(key), set_=value, where=demand_report.c.revision < new.excluded.revision
    )
    if connection.execute(newer.returning(true())).scalar_one_or_none() is None:
        return
    own = (demand_line.c.gateway == gateway) & (demand_line.c.started_at == started_at)
    connection.execute(delete(demand_line).where(own))
    names = ("fleet", "app", "request_type", "project", *COUNTS)
    rows = [key | {name: getattr(line, name) for name in names} for line in report.lines]
    if rows:
        connection.execute(insert(demand_line).on_conflict_do_nothing(), rows)


Part = tuple[float, int, int, int, int]
"""Start, seconds watched, requests, prompt tokens, output tokens."""


def _watched(connection: Connection, fleet: str, start: datetime) -> Mapping[str, list[Part]]:
    """Return the parts of hours and of reports, by key, in order of time."""
    found: dict[str, list[Part]] = defaultdict(list)
    sums = ("requests", "prompt_tokens", "output_tokens")

    def read(table: Any, seconds: Any, source: Any) -> None:
        keys = (table.c.app, table.c.request_type, table.c.started_at)
        query = select(*keys, seconds, *(func.sum(table.c[name]) for name in sums)).select_from(source)
        query = query.where(table.c.fleet == fleet, table.c.started_at >= start)
        for app, kind, at, watched, *counts in connection.execute(query.group_by(*keys).order_by(table.c.started_at)):
            found[f"{app}/{kind}"].append((at.timestamp(), int(watched), *map(int, counts)))

    read(demand_hour, func.max(demand_hour.c.seconds), demand_hour)
    read(demand_line, func.max(demand_report.c.seconds), demand_line.join(demand_report))
    return found


def _history(parts: list[Part], start_s: float, end_s: float, step_s: int) -> DemandHistory:
    first_s = max(start_s, end_s - (end_s - parts[0][0]) // step_s * step_s)
    steps = max(1, round((end_s - first_s) / step_s))
    sums, watched = np.zeros((3, steps)), np.zeros(steps)
    for n, (at_s, seconds, *counts) in enumerate(parts):
        until_s = parts[n + 1][0] if n + 1 < len(parts) else end_s
        spread = max(1, round(min(3600.0, until_s - at_s) / step_s)) if seconds > step_s else 1
        step = int((at_s - first_s) // step_s)
        to = slice(max(0, step), min(steps, step + spread))
        if to.start < to.stop:
            sums[:, to] += np.array(counts, dtype=np.float64)[:, None] / spread
            watched[to] += seconds / spread
    rates = np.divide(sums, watched, out=np.zeros_like(sums), where=watched > 0)
    known = np.maximum.accumulate(np.where(watched > 0, np.arange(steps), 0))
    rates = rates[:, known]
    return DemandHistory(end_s, float(step_s), rates[0], rates[1], rates[2])
