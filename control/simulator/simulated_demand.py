"""Demand that the planner of a simulation sees: metered as gateways meter it, or known beforehand."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from agents.messages.to_demand_desk import Offered, OfferedLine
from control.db.database import Database
from control.db.demand import PostgresDemand
from control.lifecycle.fleet import FleetRecord
from control.planning.world import World
from control.reconcile.metered_demand import MeteredDemand
from control.simulator.traffic import Load, Traffic
from policies.metered_work import text_classes
from templates_lib.values.engine_set import UNKNOWN
from templates_lib.values.work import DEFAULT_TYPE, Demand

INTERVAL_S = 60
"""Interval of gateways' reports."""
_BEFORE_S = 3600.0
"""How long before the simulation its load was what it is at first: a forecast starts from something."""
_GATEWAY, _LIFE = "simulated", "1"


class ReportedDemand:
    """What gateways would have reported by now is put on record; the demand is what follows from it."""

    def __init__(self, database: Database, traffic: Traffic, start: datetime, first_s: float) -> None:
        """`first_s`: for how long the load at first is as before."""
        self._offered, self._metered = PostgresDemand(database), MeteredDemand(database)
        self._traffic, self._start, self._first_s = traffic, start, first_s
        self._reported_s: float | None = None
        self._rolled_up = start

    def demand(self, record: FleetRecord, world: World, now: datetime) -> tuple[Demand, ...]:
        self._report(record.name, now)
        return self._metered.demand(record, world, now)

    def _report(self, fleet: str, now: datetime) -> None:
        """Report in whole minutes, as gateways do."""
        now_s = (now - self._start).total_seconds()
        from_s = self._reported_s
        if from_s is None:
            from_s = INTERVAL_S * ((now_s - _BEFORE_S) // INTERVAL_S)
        reports = []
        while from_s + INTERVAL_S <= now_s:
            lines = tuple(_line(fleet, app, load) for app, load in self._load(from_s).items())
            at = self._start + timedelta(seconds=from_s)
            reports.append((_GATEWAY, Offered(_LIFE, int(at.timestamp()), INTERVAL_S, 1, lines)))
            from_s += INTERVAL_S
        self._reported_s = from_s
        self._offered.record(reports, now)
        if now - self._rolled_up >= timedelta(hours=1):
            self._offered.roll_up(now)
            self._rolled_up = now

    def _load(self, from_s: float) -> Mapping[str, Load]:
        if from_s >= 0:
            return self._traffic.load(from_s, from_s + INTERVAL_S)
        share, first = INTERVAL_S / self._first_s, self._traffic.load(0.0, self._first_s)
        return {
            app: Load(*(round(share * of) for of in (load.requests, load.prompt_tokens, load.output_tokens)))
            for app, load in first.items()
        }


@dataclass(frozen=True, slots=True)
class KnownDemand:
    """What will come until the next plan's instances are there: of the steps from now until then, each as long as a
    plan holds, the highest mean rate, in requests of the planned lengths (as metered demand is reckoned)."""

    traffic: Traffic
    start: datetime
    step_s: float
    length_s: float

    def demand(self, record: FleetRecord, world: World, now: datetime) -> tuple[Demand, ...]:  # noqa: ARG002
        from_s = min(max((now - self.start).total_seconds(), 0.0), max(self.length_s - self.step_s, 0.0))
        ahead_s = self.step_s + 60 * world.fleet.settings.startup_minutes_of(UNKNOWN)  # of whichever takes longest
        until_s = min(from_s + ahead_s, self.length_s)
        shapes = {served.name: served.shape for served in world.recipe.served}
        found = []
        for demand in world.demand:
            shape = shapes[demand.app]
            history = self.traffic.history(demand.app, from_s, until_s, self.step_s)
            work = text_classes(demand.app, *shape.mean_tokens)
            rates = history.planned_requests_per_s(work)
            found.append(replace(demand, requests_per_s=float(rates.max(initial=0.0))))
        return tuple(found)


def _line(fleet: str, app: str, load: Load) -> OfferedLine:
    asked = (load.requests, load.prompt_tokens, load.output_tokens)
    return OfferedLine(fleet, app, DEFAULT_TYPE, "", load.requests, 0, load.prompt_tokens, load.output_tokens, *asked)
