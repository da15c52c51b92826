"""Demand as gateways meter it, where a fleet's spec says so."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Protocol

from control.db.database import Database
from control.db.demand import PostgresDemand
from control.db.demand_overrides import Override, PostgresDemandOverrides
from control.lifecycle.fleet import FleetRecord
from control.planning.world import World
from policies.metered_demand import OVERRIDDEN, DemandOverride
from templates_lib.values.plan import Reason
from templates_lib.values.work import Demand

HISTORY = timedelta(days=36)
"""Five weeks: a seasonal forecast averages four."""


class Overrides(Protocol):
    def working(self, fleet: str, now: datetime) -> Mapping[str, Override]:
        """Return the overrides in force by model."""
        ...


class MeteredDemand:
    """Demand from metered load. Overrides of operators count for models whose demand is stated in the spec, too."""

    def __init__(self, database: Database, overrides: Overrides | None = None) -> None:
        """`overrides`: None for those in force by the database."""
        self._offered = PostgresDemand(database)
        self._overrides: Overrides = overrides or PostgresDemandOverrides(database)

    def demand(self, record: FleetRecord, world: World, now: datetime) -> tuple[Demand, ...]:
        """Raises DatabaseUnavailableError."""
        fleet = world.fleet
        overrides = self._overrides.working(record.name, now)
        said = {model: DemandOverride(o.requests_per_s, o.expires_at.timestamp()) for model, o in overrides.items()}
        if not fleet.demand_rules:
            return fleet.demand({}, said, {}, now.timestamp())
        histories = self._offered.histories(record.name, now, HISTORY)
        return fleet.demand(histories, said, self._offered.waiting(record.name, now), now.timestamp())

    def overridden(self, fleet: str, now: datetime) -> tuple[Reason, ...]:
        """Say what plans are made for instead of the forecast, or of the rate of the spec: who set it, why, and until
        when. Raises DatabaseUnavailableError."""
        return tuple(
            Reason(
                OVERRIDDEN,
                f"{model}: {each.requests_per_s:.4g} requests/s until {each.expires_at:%Y-%m-%d %H:%M} UTC, set by "
                f"{each.made_by}: {each.reason}",
                model,
            )
            for model, each in sorted(self._overrides.working(fleet, now).items())
        )
