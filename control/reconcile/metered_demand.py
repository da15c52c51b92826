"""Demand as gateways meter it, where a fleet's spec says so."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Protocol

from control.db.database import Database
from control.db.demand import PostgresDemand
from control.db.demand_overrides import Override, PostgresDemandOverrides
from control.lifecycle.fleet import FleetRecord
from control.planning.metered import demand_rules
from control.planning.world import World
from policies.metered_demand import DemandOverride, demand_at
from templates_lib.values.work import Demand

HISTORY = timedelta(days=36)
"""Five weeks: a seasonal forecast averages four."""


class Overrides(Protocol):
    def working(self, fleet: str, now: datetime) -> Mapping[str, Override]:
        """By model."""
        ...


class MeteredDemand:
    """What operators say counts for models whose demand is stated in the spec, too."""

    def __init__(self, database: Database, overrides: Overrides | None = None) -> None:
        """`overrides`: None for those in force by the database."""
        self._offered = PostgresDemand(database)
        self._overrides: Overrides = overrides or PostgresDemandOverrides(database)

    def demand(self, record: FleetRecord, world: World, now: datetime) -> tuple[Demand, ...]:
        """Raises DatabaseUnavailableError."""
        rules = demand_rules(world)
        overrides = self._overrides.working(record.name, now)
        said = {model: DemandOverride(o.requests_per_s, o.expires_at.timestamp()) for model, o in overrides.items()}
        metered: dict[str, Demand] = {}
        if rules:
            histories = self._offered.histories(record.name, now, HISTORY)
            waiting = self._offered.waiting(record.name, now)
            metered = {d.key: d for d in demand_at(histories, rules, said, waiting, now.timestamp())}
        app_of = {served.name: app.name for app in world.apps for served in app.components}
        return tuple(metered.get(d.key) or _overridden(d, said, world.demand, app_of) for d in world.demand)


def _overridden(
    demand: Demand, said: dict[str, DemandOverride], stated: tuple[Demand, ...], app_of: Mapping[str, str]
) -> Demand:
    """Request types of an app keep their shares."""
    model = app_of[demand.app]
    if model not in said:
        return demand
    total = sum(other.requests_per_s for other in stated if app_of[other.app] == model)
    share = demand.requests_per_s / total if total else 0.0
    return replace(demand, requests_per_s=said[model].requests_per_s * share)
