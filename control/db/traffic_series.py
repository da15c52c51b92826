"""What gateways counted, over time: of minutes while they are kept, then of hours."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import text

from control.db.database import Database
from control.db.series_step import SeriesOf, Steps
from control.ledger.key_work import KeyWork

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
_SERVED = text(
    """
    SELECT fleet, app, project, key, work_class, unit, sum(served) AS served
    FROM (
        SELECT started_at, fleet, app, project, '' AS key, work_class, unit, served FROM demand_line
        UNION ALL
        SELECT started_at, fleet, app, project, '', work_class, unit, served FROM demand_hour
        UNION ALL
        SELECT started_at, fleet, app, project, key, work_class, unit, served FROM key_use
    ) AS counted
    WHERE started_at >= :since AND started_at < :until AND coalesce(fleet = CAST(:fleet AS text), true)
    GROUP BY fleet, app, project, key, work_class, unit
    HAVING sum(served) > 0
    ORDER BY fleet, app, project, key, work_class
    """
)


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


def served_by_key(database: Database, since: datetime, until: datetime, fleet: str | None) -> tuple[KeyWork, ...]:
    """Return what each key was served of each model from `since` on and before `until`, and under an empty key what
    a project was served that no gateway told by key. Raises DatabaseUnavailableError."""
    found: defaultdict[tuple[str, str, str], dict[str, KeyWork]] = defaultdict(dict)
    for row in database.read(_SERVED, {"since": since, "until": until, "fleet": fleet}):
        own = found[row.fleet, row.app, row.project]
        work = own.setdefault(row.key, KeyWork(row.fleet, row.app, row.project, row.key))
        own[row.key] = work.with_units(row.work_class, row.unit, int(row.served))
    return tuple(each for own in found.values() for each in _told_apart(own))


def _told_apart(by_key: Mapping[str, KeyWork]) -> Iterable[KeyWork]:
    """`by_key`: of one model and project; the empty key has what all of them were served together."""
    keys = [work for key, work in by_key.items() if key]
    rest = by_key[""].without(keys) if "" in by_key else None
    return keys if rest is None or rest.is_empty else (*keys, rest)


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
