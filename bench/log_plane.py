"""The real reconcile loop, planner and database, over a cloud and a demand made of logs; time is the caller's."""

import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from random import Random

import yaml

from control.db.api_tokens import PostgresApiTokens
from control.db.database import Database
from control.db.fleets import PostgresFleets
from control.db.instances import PostgresInstances
from control.db.intents import PostgresIntents
from control.db.leader import PostgresLeader
from control.db.libraries import PostgresLibraries
from control.db.nodes import PostgresNodes
from control.db.plans import PostgresPlans
from control.executor.node_start import NodeStart
from control.executor.nodes import NodeExecutor
from control.fleet.effects import InlineEffects
from control.fleet.keeper import Keeper
from control.fleet.keeper_settings import KeeperSettings
from control.fleet.publisher import Publisher
from control.fleet.stores import FleetStores
from control.hub.board import Board
from control.lifecycle.event import Event, EventKind
from control.lifecycle.fleet import FleetMode, FleetRecord
from control.lifecycle.history import PastTransition
from control.lifecycle.state import InstanceState
from control.market.live_market import LiveMarket
from control.market.view import StoredMarket
from control.offers.quotes import Quotes
from control.planning.session import Session
from control.planning.world import World
from control.reconcile.fleet_planner import FleetPlanner
from control.reconcile.reconciler import Ports, Reconciler
from control.reconcile.stores import ReconcileStores
from control.simulator.log_cloud import LogCloud
from templates_lib.instance import Instance
from templates_lib.offer import Market
from templates_lib.rate_series import RateSeries
from templates_lib.work import Demand, Route

STARTUP_MINUTES = (4.0, 8.0)
"""From a whole gang to its first request: seeded, around the 6 minutes that plans reckon with."""
DRAIN_MINUTES = 2.0
LOOK_BACK_MINUTES = 180
"""Planned is for the highest rate of so long."""
_FLEET = "spot-week"


class LogMarket(LiveMarket):
    """Offers as the log has them; what their answers taught is remembered in the database."""

    def __init__(self, database: Database, cloud: LogCloud, markets: frozenset[Market]) -> None:
        super().__init__(database)
        self._memory, self._cloud, self._markets = database, cloud, markets

    def quotes(self, world: World, now: datetime) -> Quotes:
        configs = {config.id: config for config in world.recipe.nodes}
        sold = tuple(offer for offer in self._cloud.offers(now) if offer.market in self._markets)
        unproven = world.fleet.policy.max_unproven_nodes
        return StoredMarket.read(self._memory, now).judged(Quotes(sold, configs), unproven)


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
    usd: float = 0.0

    @property
    def moves(self) -> int:
        """Instances that were told to go although nothing ailed them."""
        return self.events["drained"] + self.events["released"]

    @property
    def unmet_share(self) -> float:
        return self.unmet / self.offered if self.offered else 0.0


class LogPlane:
    """One control plane over one world. `minute` goes on by a minute."""

    def __init__(
        self, database: Database, folder: Path, spec: str, cloud: LogCloud, demand: LogDemand,
        markets: frozenset[Market], seed: int,
    ) -> None:  # fmt: skip
        self.tally = Tally()
        self._cloud, self._demand, self._chance = cloud, demand, Random(seed)
        self.now = demand.start
        self._takes: dict[tuple[str, str], float] = {}
        self._units: dict[str, Mapping[str, float]] = {}
        self._instances, self._plans = PostgresInstances(database), PostgresPlans(database)
        leader = PostgresLeader(database, "bench")
        executor = NodeExecutor(
            PostgresIntents(database, lambda: leader.epoch), {cloud.name: cloud}, "bench", lambda: self.now
        )
        publisher = Publisher(folder / "table.json", PostgresApiTokens(database), lambda: self.now)
        self._keeper = Keeper(
            FleetStores(self._instances, PostgresNodes(database), executor), Board({}, 1e12, 0.0), InlineEffects(),
            publisher.publish, KeeperSettings(30.0, timedelta(0)), self._seconds,
        )  # fmt: skip
        session = Session(PostgresLibraries(database), self._plans, lambda *_: None, lambda: 0.0)
        self._planner = FleetPlanner(session, lambda world: world, LogMarket(database, cloud, markets), demand)
        self._loop = Reconciler(
            Ports(
                ReconcileStores.of(database), leader, self._planner, self._keeper, publisher, InlineEffects(),
                lambda: self.now, self._seconds, said=self._said, starts={cloud.name: NodeStart(("true",))},
            )
        )  # fmt: skip
        self._fleets = PostgresFleets(database)
        self._record = self._fleets.create(_FLEET, spec, self.now, mode=FleetMode.AUTO, folder=str(folder))
        self._world: World | None = None
        self._accepted = ""

    def minute(self) -> None:
        self._loop.tick()
        if trouble := self._loop.trouble():
            raise SystemExit(f"the loop is in trouble: {trouble}")
        self._learn_units()
        self._report()
        self._serve()
        self.now += timedelta(minutes=1)
        self.tally.usd = self._cloud.spent_usd(self.now)
        self.tally.events["taken"] = len(self._cloud.taken)

    def _seconds(self) -> float:
        return (self.now - self._demand.start).total_seconds()

    def _said(self, fleet: str, step: PastTransition) -> None:  # noqa: ARG002
        if step.event is None:
            self.tally.events["launched"] += 1
        elif step.event is EventKind.DRAIN:
            self.tally.events["drained"] += 1
        elif step.event is EventKind.RELEASE and step.from_state not in (InstanceState.FAILED, InstanceState.DRAINING):
            self.tally.events["released"] += 1
        elif step.event is EventKind.BROKE:
            self.tally.events["refused"] += 1

    def _report(self) -> None:
        """What nodes would say: that they are up, loaded, drained."""
        for instance in self._keeper.known:
            kind = {InstanceState.BOOTSTRAPPING: EventKind.AGENTS_UP, InstanceState.LOADING: EventKind.LOADED,
                    InstanceState.DRAINING: EventKind.DRAINED}.get(InstanceState(instance.state))  # fmt: skip
            if kind is None or self.now < datetime.fromisoformat(instance.state_since) + self._time_for(instance, kind):
                continue
            self._instances.apply(instance.id, Event(kind, "its nodes say so"), self.now)

    def _time_for(self, instance: Instance, kind: EventKind) -> timedelta:
        if kind is EventKind.AGENTS_UP:
            return timedelta(0)
        drawn = self._chance.uniform(*STARTUP_MINUTES) if kind is EventKind.LOADED else DRAIN_MINUTES
        return timedelta(minutes=self._takes.setdefault((instance.id, kind), drawn))

    def _learn_units(self) -> None:
        accepted = self._fleets.targets()[_FLEET].accepted
        if accepted and accepted != self._accepted:
            self._accepted = accepted
            self.tally.events["plans"] += 1
            for planned in self._plans.load(accepted).instances:
                self._units[planned.template_id] = planned.units_per_s

    def _serve(self) -> None:
        """What ready instances serve at their certified capacity, each zone by itself."""
        capacity: defaultdict[tuple[str, str], float] = defaultdict(float)
        for instance in self._keeper.known:
            if instance.state == InstanceState.READY:
                for name, units in self._units[instance.template_id].items():
                    capacity[name, instance.zone] += units
        for app, routes in self._routes().items():
            rate = self._demand.rate(app, self.now)
            zones = {zone for _, zone in capacity}
            served = sum(_most(route, zone, capacity) for route in routes for zone in zones)
            self.tally.offered += 60 * rate
            self.tally.unmet += 60 * max(rate - served, 0.0)

    def _routes(self) -> Mapping[str, list[Route]]:
        if self._world is None:
            self._world = self._planner.world(self._record)
        found: defaultdict[str, list[Route]] = defaultdict(list)
        for served in self._world.recipe.served:
            for route in served.routes():
                found[route.app].append(route)
        return found


def _most(route: Route, zone: str, capacity: Mapping[tuple[str, str], float]) -> float:
    return min(capacity.get((leg.work_class, zone), 0.0) / leg.units_per_request for leg in route.legs)


@contextmanager
def spec_with(path: Path, **reconcile: object) -> Iterator[tuple[Path, str]]:
    """A folder, and the spec with other settings of its `reconcile`, and weights (an empty file) for its models."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "weights").mkdir()
        spec = yaml.safe_load(path.read_text())
        spec["reconcile"] |= reconcile
        for model in spec["models"]:
            model["weights"] = f"path:{folder / 'weights'}"
        yield folder, yaml.safe_dump(spec)
