"""What gateways counted, over time: of minutes while they are kept, then of hours."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import text

from control.db.database import Database
from control.db.series_step import SeriesOf, Steps

_COUNTED = text(
    """
    SELECT floor(extract(epoch FROM started_at - :since) / :step_s)::int AS step, fleet, app, work_class, unit,
           sum(offered) AS offered, sum(refused) AS refused, sum(served) AS served
    FROM (
        SELECT started_at, fleet, app, work_class, unit, offered, refused, served FROM demand_line
        UNION ALL
        SELECT started_at, fleet, app, work_class, unit, offered, refused, served FROM demand_hour
    ) AS counted
    WHERE started_at >= :since AND started_at < :until
          AND coalesce(fleet = CAST(:fleet AS text), true) AND coalesce(app = CAST(:model AS text), true)
    GROUP BY step, fleet, app, work_class, unit
    """
)
# Gateways count at the same time: of a moment that several watched, the longest watch counts.
_WATCHED = text(
    """
    SELECT floor(extract(epoch FROM started_at - :since) / :step_s)::int AS step, sum(seconds) AS seconds
    FROM (
        SELECT started_at, max(seconds) AS seconds FROM (
            SELECT started_at, seconds FROM demand_report UNION ALL SELECT started_at, seconds FROM demand_hour
        ) AS watch
        WHERE started_at >= :since AND started_at < :until
        GROUP BY started_at
    ) AS moment
    GROUP BY step
    """
)
_BY_PROJECT = text(
    """
    SELECT fleet, app, project, sum(served) FILTER (WHERE work_class = '') AS requests,
           sum(served) FILTER (WHERE work_class <> '' AND unit = 'prompt_token') AS prompt_tokens,
           sum(served) FILTER (WHERE work_class <> '' AND unit = 'output_token') AS output_tokens
    FROM (
        SELECT started_at, fleet, app, project, work_class, unit, served FROM demand_line
        UNION ALL
        SELECT started_at, fleet, app, project, work_class, unit, served FROM demand_hour
    ) AS counted
    WHERE started_at >= :since AND started_at < :until
    GROUP BY fleet, app, project
    ORDER BY fleet, app, project
    """
)


@dataclass(frozen=True, slots=True)
class Served:
    """One model for the keys of one project."""

    fleet: str
    model: str
    project: str
    """Empty: the gateway is open."""
    requests: int
    prompt_tokens: int
    output_tokens: int


@dataclass(slots=True)
class Counted:
    """One model in one step."""

    requests: int = 0
    refused: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    """Tokens that were served."""
    served: dict[str, int] = field(default_factory=dict)
    """Units by work class; requests that were served under the empty one."""


@dataclass(frozen=True, slots=True)
class TrafficSeries:
    watched_s: list[float]
    """Seconds of each step that a gateway counted; 0: nothing is known of it."""
    models: dict[tuple[str, str], list[Counted]]
    """Fleet and model → each step."""


def traffic_series(database: Database, steps: Steps, of: SeriesOf) -> TrafficSeries:
    """Return what was asked and served in each step. Raises DatabaseUnavailableError."""
    asked: dict[str, Any] = {"since": steps.since, "until": steps.until, "step_s": steps.step_s}
    watched = [0.0] * steps.count
    models: dict[tuple[str, str], list[Counted]] = {}
    with database.transaction() as connection:
        for row in connection.execute(_WATCHED, asked):
            watched[row.step] = float(row.seconds)
        for row in connection.execute(_COUNTED, asked | {"fleet": of.fleet, "model": of.model}):
            key = row.fleet, row.app
            own = models.get(key) or models.setdefault(key, [Counted() for _ in range(steps.count)])
            _add(own[row.step], row.work_class, row.unit, int(row.offered), int(row.refused), int(row.served))
    return TrafficSeries(watched, models)


def served_by_project(database: Database, since: datetime, until: datetime) -> tuple[Served, ...]:
    """Return what was served from `since` on and before `until`. Raises DatabaseUnavailableError."""
    return tuple(
        Served(
            row.fleet,
            row.app,
            row.project,
            int(row.requests or 0),
            int(row.prompt_tokens or 0),
            int(row.output_tokens or 0),
        )
        for row in database.read(_BY_PROJECT, {"since": since, "until": until})
    )


LATELY = timedelta(minutes=10)


def served_lately(database: Database, fleet: str, model: str, now: datetime) -> dict[str, float] | None:
    """Return units/s by work class that a model served in the last ten minutes; None: no gateway reported. Raises
    DatabaseUnavailableError."""
    found = traffic_series(
        database, Steps(now - LATELY, now, int(LATELY.total_seconds()), False), SeriesOf(fleet, model)
    )
    (watched_s,) = found.watched_s
    counted = found.models.get((fleet, model))
    if not watched_s or counted is None:
        return None
    return {name: units / watched_s for name, units in counted[0].served.items() if name}


def _add(counted: Counted, work_class: str, unit: str, offered: int, refused: int, served: int) -> None:
    if not work_class:
        counted.requests += offered
        counted.refused += refused
    elif unit == "prompt_token":
        counted.prompt_tokens += served
    elif unit == "output_token":
        counted.output_tokens += served
    counted.served[work_class] = counted.served.get(work_class, 0) + served
