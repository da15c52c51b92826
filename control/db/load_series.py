"""Load of instances over time: samples of five minutes, and the hours that they become."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Row, delete, func, select, text
from sqlalchemy.dialects.postgresql import insert

from control.db.database import Database
from control.db.series_step import SeriesOf, Steps
from control.db.series_tables import capacity_sample, instance_load, load_hour

SAMPLE = timedelta(minutes=5)
SAMPLES_KEPT = timedelta(hours=48)
"""Time for which the load of single instances is known."""
HOURS_KEPT = timedelta(days=400)
_FRESH = timedelta(minutes=2)
"""Age of a node's last report from which it says nothing of now."""
_SETTLED = timedelta(minutes=2)
"""Time after its end for which an hour may still be looked at."""

_LOOK = text(
    """
    INSERT INTO instance_load AS known
        (instance_id, begins_at, fleet, model, zone, looks, running, waiting, kv_blocks, kv_used, cpu)
    SELECT instance.id, :begins_at, instance.fleet, max(node.model), instance.zone, 1,
           coalesce(sum((load ->> 'running')::float8) FILTER (WHERE load ->> 'scheduler' <> ''), 0),
           coalesce(sum((load ->> 'waiting')::float8) FILTER (WHERE load ->> 'scheduler' <> ''), 0),
           coalesce(sum((load ->> 'kv_blocks')::float8) FILTER (WHERE load ->> 'scheduler' <> ''), 0),
           coalesce(sum((load ->> 'kv_blocks')::float8 - (load ->> 'kv_blocks_free')::float8)
                    FILTER (WHERE load ->> 'scheduler' <> ''), 0),
           sum((load ->> 'cpu_share')::float8)
    FROM instance JOIN node ON node.instance_id = instance.id AND node.gone_at IS NULL
    WHERE instance.state <> 'terminated' AND node.load IS NOT NULL AND node.last_heartbeat > :heard_after
    GROUP BY instance.id, instance.fleet, instance.zone
    ON CONFLICT (instance_id, begins_at) DO UPDATE SET
        looks = known.looks + 1, running = known.running + excluded.running,
        waiting = known.waiting + excluded.waiting, kv_blocks = known.kv_blocks + excluded.kv_blocks,
        kv_used = known.kv_used + excluded.kv_used, cpu = known.cpu + excluded.cpu
    """
)

# An hour's mean counts the samples in which somebody looked, so that an instance that came late counts in part.
_ROLL_UP = text(
    """
    INSERT INTO load_hour (fleet, model, zone, begins_at, instances, running, waiting, kv_blocks, kv_used, cpu)
    SELECT fleet, model, zone, hour, count(*) / max(watched), sum(running / looks) / max(watched),
           sum(waiting / looks) / max(watched), sum(kv_blocks / looks) / max(watched),
           sum(kv_used / looks) / max(watched), sum(cpu / looks) / max(watched)
    FROM (
        SELECT *, date_trunc('hour', begins_at, 'UTC') AS hour FROM instance_load
        WHERE begins_at >= :since AND begins_at < :until
    ) AS sample JOIN (
        SELECT date_trunc('hour', begins_at, 'UTC') AS hour, count(DISTINCT begins_at)::float8 AS watched
        FROM instance_load WHERE begins_at >= :since AND begins_at < :until GROUP BY 1
    ) AS looked USING (hour)
    GROUP BY fleet, model, zone, hour
    ON CONFLICT DO NOTHING
    """
)

# What was looked at and has no instance of those asked for had none: a zero, where a moment without a look is a gap.
_READ = text(
    """
    SELECT floor(extract(epoch FROM begins_at - :since) / :step_s)::int AS step, avg(instances) AS instances,
           avg(running) AS running, avg(waiting) AS waiting, avg(kv_blocks) AS kv_blocks, avg(kv_used) AS kv_used,
           avg(cpu) AS cpu
    FROM (
        SELECT begins_at, count(*) FILTER (WHERE own)::float8 AS instances,
               coalesce(sum(running / looks) FILTER (WHERE own), 0) AS running,
               coalesce(sum(waiting / looks) FILTER (WHERE own), 0) AS waiting,
               coalesce(sum(kv_blocks / looks) FILTER (WHERE own), 0) AS kv_blocks,
               coalesce(sum(kv_used / looks) FILTER (WHERE own), 0) AS kv_used,
               coalesce(sum(cpu / looks) FILTER (WHERE own), 0) AS cpu
        FROM (
            SELECT *, coalesce(fleet = CAST(:fleet AS text), true)
                      AND coalesce(model = ANY(CAST(:models AS text[])), true)
                      AND coalesce(zone = CAST(:zone AS text), true)
                      AND coalesce(instance_id = CAST(:instance AS text), true) AS own
            FROM instance_load WHERE begins_at >= :samples_since AND begins_at < :until
        ) AS sample
        GROUP BY begins_at
        UNION ALL
        SELECT begins_at, coalesce(sum(instances) FILTER (WHERE own), 0), coalesce(sum(running) FILTER (WHERE own), 0),
               coalesce(sum(waiting) FILTER (WHERE own), 0), coalesce(sum(kv_blocks) FILTER (WHERE own), 0),
               coalesce(sum(kv_used) FILTER (WHERE own), 0), coalesce(sum(cpu) FILTER (WHERE own), 0)
        FROM (
            SELECT *, coalesce(fleet = CAST(:fleet AS text), true)
                      AND coalesce(model = ANY(CAST(:models AS text[])), true)
                      AND coalesce(zone = CAST(:zone AS text), true) AS own
            FROM load_hour WHERE begins_at >= :since AND begins_at < :samples_since
        ) AS hour
        GROUP BY begins_at
    ) AS moment
    GROUP BY step
    ORDER BY step
    """
)


@dataclass(frozen=True, slots=True)
class Level:
    """Means over one step, of all instances together."""

    instances: float
    """That reported."""
    running: float
    waiting: float
    kv_blocks: float
    kv_used: float
    """Blocks."""
    cpu: float
    """Processors that their engines kept busy."""


@dataclass(frozen=True, slots=True)
class PostgresLoadSeries:
    """Every method also raises DatabaseUnavailableError."""

    database: Database

    def look(self, capacities: Mapping[tuple[str, str], float], now: datetime) -> None:
        """Sample what nodes said last. `capacities`: units/s of ready instances by fleet and work class."""
        begins_at = _sample_of(now)
        rows = [
            {"fleet": fleet, "work_class": work_class, "begins_at": begins_at, "looks": 1, "units_per_s": units_per_s}
            for (fleet, work_class), units_per_s in sorted(capacities.items())
        ]
        new = insert(capacity_sample)
        known, more = capacity_sample.c, new.excluded
        seen = {"looks": known.looks + 1, "units_per_s": known.units_per_s + more.units_per_s}
        keys = [known.fleet, known.work_class, known.begins_at]
        with self.database.transaction() as connection:
            connection.execute(_LOOK, {"begins_at": begins_at, "heard_after": now - _FRESH})
            if rows:
                connection.execute(new.on_conflict_do_update(index_elements=keys, set_=seen), rows)

    def levels(self, steps: Steps, of: SeriesOf) -> list[Level | None]:
        """Return the load of each step; None: nobody looked. Of an instance nothing is known once its samples have
        become hours."""
        asked: dict[str, Any] = {
            "since": steps.since,
            "until": steps.until,
            "samples_since": steps.since - SAMPLE,  # one that began before may hold for the first step
            "step_s": steps.step_s,
            "fleet": of.fleet,
            "models": None if of.models is None else list(of.models),
            "zone": of.zone,
            "instance": of.instance,
        }
        if steps.are_coarse and of.instance is None:
            asked["samples_since"] = min(steps.until, max(steps.since, self._rolled_until() or steps.since))
        found: list[Level | None] = [None] * steps.count
        for row in self.database.read(_READ, asked):
            level = Level(row.instances, row.running, row.waiting, row.kv_blocks, row.kv_used, row.cpu)
            # A sample of five minutes holds for each of its minutes.
            for step in range(row.step, row.step + max(1, int(SAMPLE.total_seconds() // steps.step_s))):
                if 0 <= step < steps.count:
                    found[step] = level
        return found

    def capacities(self, steps: Steps, of: SeriesOf) -> dict[tuple[str, str], list[float | None]]:
        """Return units/s that ready instances were planned to sustain, by fleet and work class; None: nobody looked."""
        step = func.floor(func.extract("epoch", capacity_sample.c.begins_at - steps.since) / steps.step_s).label("step")
        mean = func.avg(capacity_sample.c.units_per_s / capacity_sample.c.looks).label("units_per_s")
        key = capacity_sample.c.fleet, capacity_sample.c.work_class, step
        within = capacity_sample.c.begins_at >= steps.since - SAMPLE, capacity_sample.c.begins_at < steps.until
        query = select(*key, mean).where(*within).group_by(*key)
        if of.fleet is not None:
            query = query.where(capacity_sample.c.fleet == of.fleet)
        return _by_step(self.database.read(query), steps)

    def roll_up(self, now: datetime) -> None:
        """Make hours of the samples of each hour that is over; drop samples and hours that are too old. Any number of
        processes may."""
        until = (now - _SETTLED).replace(minute=0, second=0, microsecond=0)
        since = self._rolled_until() or until - SAMPLES_KEPT
        if since < until:
            self.database.write(_ROLL_UP, {"since": since, "until": until})
        self.database.write(delete(instance_load).where(instance_load.c.begins_at < now - SAMPLES_KEPT))
        self.database.write(delete(load_hour).where(load_hour.c.begins_at < now - HOURS_KEPT))
        # Capacity changes seldom: of each hour that is long past its first sample stays.
        old = capacity_sample.c.begins_at < now - SAMPLES_KEPT
        later = func.extract("minute", capacity_sample.c.begins_at) > 0
        self.database.write(delete(capacity_sample).where(old, later))
        self.database.write(delete(capacity_sample).where(capacity_sample.c.begins_at < now - HOURS_KEPT))

    def _rolled_until(self) -> datetime | None:
        (newest,) = self.database.read_column(select(func.max(load_hour.c.begins_at)))
        return None if newest is None else newest + timedelta(hours=1)


def _sample_of(now: datetime) -> datetime:
    length_s = SAMPLE.total_seconds()
    return datetime.fromtimestamp(now.timestamp() // length_s * length_s, UTC)


def _by_step(rows: Sequence[Row[Any]], steps: Steps) -> dict[tuple[str, str], list[float | None]]:
    held = max(1, int(SAMPLE.total_seconds() // steps.step_s))
    found: dict[tuple[str, str], list[float | None]] = {}
    for row in rows:
        own = found.setdefault((row.fleet, row.work_class), [None] * steps.count)
        for step in range(int(row.step), int(row.step) + held):
            if 0 <= step < steps.count:
                own[step] = float(row.units_per_s)
    return found
