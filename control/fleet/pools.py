"""Pools of running fleets: members ready of those planned, and load against capacity, work class by work class."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Literal

from control.db.database import Database
from control.db.demand import PostgresDemand
from control.db.demand_overrides import PostgresDemandOverrides
from control.db.events import PostgresEvents
from control.db.fleets import PostgresFleets
from control.db.libraries import PostgresLibraries
from control.db.plans import PostgresPlans
from control.demand.heard_load import HeardLoad
from control.fleet.capacities import ready_targets
from control.fleet.planned_pools import PlannedPool, planned_pools, unit_of_text
from control.fleet_file.model_section import if_readable, served_names
from control.lifecycle.fleet import FleetRecord
from templates_lib.values.work import DEFAULT_TYPE, Unit

BURST_EVENT = "pool.burst"
"""Kind of the events that say why more is planned for between two plans."""
_MOST_EVENTS = 200
"""Bursts of a fleet among which the last of each app is looked for."""
_MINUTES = timedelta(minutes=2)


@dataclass(frozen=True, slots=True)
class PlannedInstead:
    """Demand of a model that is planned for instead of the forecast."""

    requests_per_s: float
    made_by: str
    """`burst`: the loop itself; else the operator."""
    reason: str
    made_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class LastBurst:
    at: str
    """ISO 8601, UTC."""
    text: str
    """Which pool had how many members, or how many answers were late, and what was planned for."""


@dataclass(frozen=True, slots=True)
class Pool:
    """What one fleet has for one work class."""

    fleet: str
    model: str
    """Model or app, as clients call it."""
    work_class: str
    stage: str
    """Phase of a text model, or component of an app: the rest of the class's name."""
    unit: Unit | None
    """Unit of load and capacity; null: it is not known any more."""
    planned: int
    """Members that the plan in force has."""
    ready: int
    """Members that serve, those among them of an earlier plan."""
    nodes: dict[str, int]
    """Node configuration → how many, of the planned members; nodes that pools share count in each."""
    capacity_units_per_s: float
    """That the plan may have its members do."""
    load_units_per_s: float | None
    """What requests that came ask for, whatever became of them; null: nobody reported."""
    load_of: Literal["seconds", "minute"] | None
    """The last ten seconds, or the last whole minute where gateways say nothing of late."""
    used: float | None
    """Load over capacity; above 1 more is asked than was planned for. null: either is not known."""
    override: PlannedInstead | None
    """Of the whole model; null: the forecast, or the rate of the spec, is planned for."""
    last_burst: LastBurst | None
    """The last event `pool.burst` of the app; null: none is on record, or 200 of others came since."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """Of the requests that gateways count under one name."""

    requests_per_s: float
    units_per_s: Mapping[str, float]
    of: Literal["seconds", "minute"]


@dataclass(frozen=True, slots=True)
class FleetPools:
    """For one look at any number of fleets. Every method raises DatabaseUnavailableError."""

    database: Database
    now: datetime
    ready: Mapping[str, Mapping[str, int]]
    """Fleet → work class → members that serve."""
    heard: HeardLoad

    @classmethod
    def of(cls, database: Database, now: datetime) -> "FleetPools":
        ready: defaultdict[str, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
        for fleet, target, count in ready_targets(database):
            for work_class in target.units_per_s:
                ready[fleet][work_class] += count
        heard = HeardLoad()
        for process, (at, recent) in PostgresDemand(database).recent(now).items():
            heard.hear(process.encode(), recent, at)
        return cls(database, now, ready, heard)

    def pools(self, record: FleetRecord) -> tuple[Pool, ...]:
        """List the pools of a fleet by work class: those that its plan in force has, and those that serve."""
        fleet = record.name
        planned = _planned(self.database, PostgresFleets(self.database).target(fleet).accepted)
        ready = self.ready.get(fleet, {})
        if not planned and not ready:
            return ()
        asked = self._asked(fleet)
        overrides = {
            model: PlannedInstead(o.requests_per_s, o.made_by, o.reason, o.made_at, o.expires_at)
            for model, o in PostgresDemandOverrides(self.database).working(fleet, self.now).items()
        }
        events = PostgresEvents(self.database).page(_MOST_EVENTS, fleet=fleet, kind=BURST_EVENT)
        bursts = [LastBurst(each.at, each.event.text) for each in events]
        named = (if_readable(served_names, record.spec) or frozenset()) | overrides.keys()
        found = []
        for name in sorted(planned.keys() | ready.keys()):
            pool = planned.get(name) or PlannedPool(unit_of_text(name))
            served, _, stage = name.partition("/")
            model = _model(served, named)
            load, load_of = _load(name, pool, asked)
            capacity = pool.capacity_units_per_s
            found.append(
                Pool(
                    fleet=fleet,
                    model=model,
                    work_class=name,
                    stage=stage,
                    unit=pool.unit,
                    planned=pool.members,
                    ready=ready.get(name, 0),
                    nodes=dict(pool.nodes),
                    capacity_units_per_s=capacity,
                    load_units_per_s=load,
                    load_of=load_of,
                    used=load / capacity if load is not None and capacity > 0 else None,
                    override=overrides.get(model),
                    last_burst=next((each for each in bursts if each.text.startswith(f"{model}: ")), None),
                )
            )
        return tuple(found)

    def _asked(self, fleet: str) -> dict[str, _Asked]:
        """By the name that gateways count requests under: of the last seconds, or else of the last minute."""
        found = {}
        for key, history in PostgresDemand(self.database).histories(fleet, self.now, _MINUTES, step_s=60).items():
            rates = {work_class: float(of[-1]) for (work_class, _), of in history.units_per_s.items()}
            found[key.removesuffix(f"/{DEFAULT_TYPE}")] = _Asked(float(history.requests_per_s[-1]), rates, "minute")
        for name, heard in self.heard.of(fleet, self.now).items():
            found[name] = _Asked(heard.requests_per_s, heard.units_per_s, "seconds")
        return found


@lru_cache(maxsize=64)
def _planned(database: Database, plan_id: str) -> Mapping[str, PlannedPool]:
    """Return the pools of a plan, which never changes; nothing where it is gone, or there is none."""
    if not plan_id:
        return {}
    plans = PostgresPlans(database)
    try:
        plan = plans.load(plan_id)
        snapshot = plans.snapshot(plan.snapshot_version)
    except (LookupError, ValueError):
        return {}
    try:
        classes = PostgresLibraries(database).show(plan.library_version).classes
    except LookupError:
        classes = ()
    return planned_pools(plan, snapshot, classes)


def _load(
    work_class: str, pool: PlannedPool, asked: Mapping[str, _Asked]
) -> tuple[float | None, Literal["seconds", "minute"] | None]:
    """Return units/s, and of what time; that of a minute, where any part is. A class that gateways do not count by
    itself, such as that of prompts and answers together, has its requests counted."""
    known = [
        (each.units_per_s.get(work_class, each.requests_per_s * units), each.of)
        for name, units in pool.units_of_request.items()
        if (each := asked.get(name)) is not None
    ]
    if not known:
        return None, None
    return sum(units for units, _ in known), "minute" if any(of == "minute" for _, of in known) else "seconds"


def _model(served: str, named: frozenset[str]) -> str:
    """Return the name that clients use of what work classes begin with: a request type of a model adds its own to it
    (`templates_lib.apps.app.serving_id`)."""
    if served in named:
        return served
    return max((name for name in named if served.startswith(f"{name}-")), key=len, default=served)
