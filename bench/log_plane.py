"""The real reconcile loop, planner and database over a cloud and rates of demand made of logs, and a tally of it."""

import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import yaml

from control.db.database import Database
from control.db.instances import PostgresInstances
from control.db.libraries import PostgresLibraries
from control.db.plans import PostgresPlans
from control.lifecycle.event import EventKind
from control.lifecycle.fleet import FleetRecord
from control.planning.session import PlanningSession
from control.planning.world import World, read_world
from control.simulator.fleet_history import FleetHistory
from control.simulator.log_cloud import LogCloud
from control.simulator.market_log import MarketLog
from control.simulator.offer_log import OfferLog
from control.simulator.plane import ControlPlane
from control.simulator.replay.course import MINUTE_S, Life
from control.simulator.replay.course import Demand as Offered
from control.simulator.replay.recorded_course import is_move
from control.simulator.simulated_market import SimulatedMarket
from control.simulator.simulated_timings import SimulatedTimings
from control.simulator.watched_planner import WatchedPlanner
from templates_lib.load.rate_series import RateSeries
from templates_lib.values.work import Demand

STARTUP_S = (240.0, 480.0)
"""From a whole gang to its first request: seeded, around the 6 minutes that plans reckon with."""
DRAIN_S = 120.0
LOOK_BACK_MINUTES = 180
"""Planned is for the highest rate of so long."""


@dataclass(frozen=True, slots=True)
class LogDemand:
    """By app: requests per second from the world's start on."""

    series: Mapping[str, RateSeries]
    start: datetime

    def rate(self, app: str, now: datetime) -> float:
        return self.series[app].at((now - self.start).total_seconds())

    def demand(self, record: FleetRecord, world: World, now: datetime) -> tuple[Demand, ...]:  # noqa: ARG002
        step = timedelta(minutes=10)
        past = [max(now - n * step, self.start) for n in range(LOOK_BACK_MINUTES // 10 + 1)]
        return tuple(replace(d, requests_per_s=max(self.rate(d.app, at) for at in past)) for d in world.demand)


@dataclass(slots=True)
class Tally:
    """What became of a fleet."""

    events: Counter[str] = field(default_factory=Counter)
    offered: float = 0.0
    """Requests."""
    unmet: float = 0.0
    """Beyond the certified capacity of ready instances, each zone by itself."""
    usd: float = 0.0

    @property
    def moves(self) -> int:
        """Instances that were told to go although nothing ailed them."""
        return self.events["moved"]

    @property
    def unmet_share(self) -> float:
        return self.unmet / self.offered if self.offered else 0.0

    @property
    def usd_per_million(self) -> float:
        """$ for a million requests that were served."""
        return 1e6 * self.usd / max(self.offered - self.unmet, 1.0)


class LogPlane:
    """One control plane over one cloud."""

    def __init__(
        self, database: Database, spec: Path, logs: tuple[OfferLog, ...], demand: LogDemand, seed: int
    ) -> None:
        """`logs`: of what is rented; nobody says how much of it there is."""
        self._world, self._spec, self._demand = read_world(spec), spec, demand
        self._clouds = {"aws": LogCloud("aws", logs, demand.start, seed)}
        session = PlanningSession(PostgresLibraries(database), PostgresPlans(database), lambda *_: None, lambda: 0.0)
        market = SimulatedMarket(database, MarketLog(logs, (), frozenset(), ()), self._clouds, demand.start)
        self._plane = ControlPlane(
            database,
            lambda log: WatchedPlanner(
                session, self._world, market, demand, PostgresInstances(database).drained_since, log.planned
            ),
            self._clouds,
            SimulatedTimings(STARTUP_S, {(f"{app}/aggregated",): DRAIN_S for app in demand.series}, seed),
            demand.start,
        )

    def run(self, length_s: float) -> Iterator[float]:
        """Yields the time, now and then."""
        self._plane.hold(self._world.name, self._spec.read_text(), str(self._spec.parent))
        for now_s in self._plane.run_until(length_s):
            if (troubles := self._plane.log.troubles) and troubles[-1][1]:
                raise SystemExit(f"the loop is in trouble: {troubles[-1][1]}")
            yield now_s

    def tally(self, until_s: float) -> Tally:
        """Up to a time that it has come to, in whole minutes."""
        log, cloud = self._plane.log, self._clouds["aws"]
        lives = FleetHistory(log, self._clouds, self._world.recipe, until_s).timeline().instances
        minutes = np.arange(int(until_s / MINUTE_S)) * MINUTE_S
        rates = {app: np.array([series.at(at) for at in minutes]) for app, series in self._demand.series.items()}
        served = Offered(rates).served(
            [route for model in self._world.recipe.served for route in model.routes()],
            [Life(i.zone, i.units_per_s, i.ready_s, min(i.drain_s, i.gone_s)) for i in lives],
            anywhere=False,
        )
        events = Counter(
            launched=sum(step.event is EventKind.PROVISION for _, step in log.steps),
            moved=sum(is_move(step) for _, step in log.steps),
            refused=sum(step.event is EventKind.BROKE for _, step in log.steps),
            taken=len(cloud.taken),
            plans=len({plan.plan_id for plan in log.plans}),
        )
        return Tally(
            events,
            MINUTE_S * sum(float(rate.sum()) for rate in rates.values()),
            MINUTE_S * sum(float(np.maximum(rate - served[app], 0.0).sum()) for app, rate in rates.items()),
            cloud.spent_between_usd(0.0, until_s),
        )


@contextmanager
def spec_with(path: Path, **reconcile: object) -> Iterator[Path]:
    """The spec with other settings of its `reconcile`, and weights (an empty folder) for its models."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "weights").mkdir()
        spec = yaml.safe_load(path.read_text())
        spec["reconcile"] |= reconcile
        for model in spec["models"]:
            model["weights"] = f"path:{folder / 'weights'}"
        (folder / path.name).write_text(yaml.safe_dump(spec))
        yield folder / path.name
