"""A control plane on a real database with the real planner, at a cloud that a test can break, in time that a test makes
pass. No node ever runs: the test says what nodes would report."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from control.cloud.port import Cloud
from control.cost.spending_limit import spending_limit
from control.db.api_tokens import PostgresApiTokens
from control.db.database import Database
from control.db.events import PostgresEvents
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
from control.lifecycle.state import InstanceState as S
from control.market.live_market import LiveMarket
from control.planning.promise import AttainmentOf
from control.planning.session import PlanningSession
from control.planning.world import World
from control.reconcile.fleet_planner import FleetPlanner
from control.reconcile.metered_demand import MeteredDemand
from control.reconcile.node_starts import engines_at
from control.reconcile.promises_kept import MeasuredCorrections
from control.reconcile.reconcile_ports import ReconcilePorts
from control.reconcile.reconciler import Reconciler
from control.reconcile.stores import ReconcileStores
from templates_lib.values.plan import Plan
from tests.control.cloud.fake_cloud import FakeCloud
from tests.control.lifecycle.worlds import START

SPEC = """\
apiVersion: medley/v1
kind: Fleet
name: {name}
models:
  - model: smollm2-135m-instruct
    name: {model}
    slo: {{ttft_ms: 6000, tpot_ms: 600, percentile: 95, keep: throughput}}
    workload: sharegpt
    disaggregated: false
    aggregated: true
    demand: {{requests_per_s: {rate}}}
clouds:
  - cloud: local
    kinds:
      - {{name: cheap, cpu_cores: 2.0, memory_mib: 4000, stock: 6, usd_per_hour: 0.01}}
      - {{name: dear, cpu_cores: 2.1, memory_mib: 4000, stock: 6, usd_per_hour: 0.05}}
solver: {{n_max: 1}}
{more}"""
NEXT = {
    S.BOOTSTRAPPING: (EventKind.AGENTS_UP, EventKind.LOADED),
    S.LOADING: (EventKind.LOADED,),
    S.DRAINING: (EventKind.DRAINED,),
}


def spec(name: str = "chat", rate: float = 0.2, more: str = "", model: str = "") -> str:
    return SPEC.format(name=name, rate=rate, more=more, model=model or f"{name}-model")


@dataclass
class Place:
    """What outlives control planes."""

    database: Database
    folder: Path
    cloud: FakeCloud = field(default_factory=lambda: FakeCloud("local", {"cheap": 6, "dear": 6}))
    now: datetime = START
    seconds: float = 0.0
    others: Mapping[str, Cloud] = field(default_factory=dict)
    """Clouds beside the local one."""
    planning: Callable[[], None] = lambda: None
    """Runs when a spec is planned for the first time."""
    failing: Callable[[Plan], tuple[str, ...]] = lambda _: ()
    """What would fail of a plan's launch."""

    @property
    def fleets(self) -> PostgresFleets:
        return PostgresFleets(self.database)

    def put(self, text: str, mode: FleetMode = FleetMode.AUTO, name: str = "chat") -> FleetRecord:
        known = {record.name: record for record in self.fleets.all()}
        if name in known:
            return self.fleets.change(name, known[name].version, self.now, spec=text, mode=mode)
        return self.fleets.create(name, text, self.now, mode=mode)

    def states(self, fleet: str = "chat") -> list[str]:
        return sorted(i.state for i in PostgresInstances(self.database).of_fleet(fleet))

    def types(self) -> list[str]:
        """Instance types that are rented."""
        return sorted(self.cloud.request(node.name).instance_type for node in self.cloud.list({}, self.now))

    def events(self, kind: str) -> list[str]:
        return [past.event.text for past in reversed(PostgresEvents(self.database).page(1000, kind=kind))]

    def nodes_report(self) -> None:
        instances = PostgresInstances(self.database)
        for instance in instances.living():
            for kind in NEXT.get(S(instance.state), ()):
                instances.apply(instance.id, Event(kind, "its nodes say so"), self.now)

    def pass_time(self, seconds: float) -> None:
        self.seconds += seconds
        self.now += timedelta(seconds=seconds)


class Plane:
    """One control plane: a process, as it were."""

    def __init__(
        self, place: Place, name: str = "one", attainment: AttainmentOf | None = None, **settings: Any
    ) -> None:
        self.place = place
        database = place.database
        self.leader = PostgresLeader(database, name)
        clouds = {"local": place.cloud, **place.others}
        executor = NodeExecutor(PostgresIntents(database, lambda: self.leader.epoch), clouds, "me", lambda: place.now)
        stores = FleetStores(PostgresInstances(database), PostgresNodes(database), executor)
        self.table = place.folder / "table.json"
        publisher = Publisher(self.table, PostgresApiTokens(database), lambda: place.now)
        self.board = Board({}, 1e9, 0.0)
        self.keeper = Keeper(
            stores, self.board, InlineEffects(), publisher.publish,
            KeeperSettings(**{"repair_s": 1.0, "in_flight": timedelta(0)} | settings), lambda: place.seconds,
        )  # fmt: skip
        session = PlanningSession(
            PostgresLibraries(database), PostgresPlans(database), lambda *_: None, lambda: 0.0, attainment=attainment
        )
        planner = FleetPlanner(
            session,
            self._prepared,
            LiveMarket(database),
            MeteredDemand(database),
            PostgresInstances(database).drained_since,
            spending_limit=lambda record, now: spending_limit(database, record.name, record.project, now),
            corrections=MeasuredCorrections(database),
            overridden=MeteredDemand(database).overridden,
        )
        self.loop = Reconciler(
            ReconcilePorts(
                ReconcileStores.of(database), self.leader, planner, self.keeper, publisher, InlineEffects(),
                lambda: place.now, lambda: place.seconds,
                preflight=lambda _, plan: place.failing(plan),
                starts={cloud: NodeStart(("true",), engines=engines_at(cloud)) for cloud in clouds},
            )
        )  # fmt: skip

    def _prepared(self, world: World) -> World:
        self.place.planning()
        return world

    def tick(self, seconds: float = 0.25) -> None:
        self.place.pass_time(seconds)
        self.loop.tick()
        self.place.nodes_report()

    def run(self, seconds: float) -> None:
        """In quarters of a second; in whole ones through minutes, for which things are due after many of these."""
        step_s = 0.25 if seconds < 60 else 1.0
        for _ in range(int(seconds / step_s)):
            self.tick(step_s)

    def until_settled(self, within_s: float = 60.0) -> None:
        for _ in range(int(within_s / 0.25)):
            self.tick()
            if self.loop.is_settled():
                return
        raise AssertionError(f"{self.place.states()} after {within_s} s; {self.loop.trouble()}")
