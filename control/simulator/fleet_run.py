"""The control plane of a scenario, run over its logs: which fleet it gave, and what it paid for it."""

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path

from control.db.database import Database, open_database
from control.db.instances import PostgresInstances
from control.db.plans import PostgresPlans
from control.planning.session import PlanningSession, method_of
from control.planning.world import World
from control.reconcile.market import DemandSource
from control.simulator.attainment import SimulatedAttainment
from control.simulator.log_cloud import LogCloud
from control.simulator.plane import ControlPlane
from control.simulator.plane_log import PlaneLog
from control.simulator.scenario import FleetScenario, Scenario
from control.simulator.scenario_schema import DemandSeen
from control.simulator.simulated_demand import KnownDemand, ReportedDemand
from control.simulator.simulated_market import SimulatedMarket
from control.simulator.simulated_timings import SimulatedTimings
from control.simulator.watched_planner import WatchedPlanner
from policies.baselines import MEDLEY, Method
from templates_lib.ports.library_store import LibraryStore
from templates_lib.ports.solve import Solve
from templates_lib.ports.source import Progress
from templates_lib.values.library import Library
from templates_lib.values.plan import Plan
from templates_lib.values.snapshot import Snapshot
from templates_lib.values.work import Phase

_SETTLE_S = 300.0
"""After its start-up a fleet may still be put together from offers that were not refused."""
_MOST_DRAIN_S = 600.0
"""`control.lifecycle.patience`: what drains for longer is given back."""


@dataclass(frozen=True, slots=True)
class Around:
    """What a simulation needs of the world outside."""

    libraries: LibraryStore
    """Where libraries are kept: a new one is built and stored."""
    progress: Progress
    """Told of libraries that are built, and of (`control plane` or `requests`, minutes done, minutes in all)."""
    clock: Callable[[], float]
    """Wall seconds, monotonic."""
    folder: Path
    """Folder of a database that is thrown away; its path must be short enough for a socket."""


@dataclass(frozen=True, slots=True, eq=False)
class FleetRun:
    """A control plane that has run to the end of its scenario."""

    log: PlaneLog
    clouds: Mapping[str, LogCloud]


def run_fleet(scenario: FleetScenario, around: Around) -> FleetRun:
    """Run a scenario's control plane to the end. Raises ValueError for a fleet that cannot be planned at all."""
    with tempfile.TemporaryDirectory(prefix="medley-", dir=around.folder) as name:
        home = Path(name)
        with open_database(None, home / "postgres") as database:
            plane = _Plane(scenario, around, database, home)
            plane.run()
    return FleetRun(plane.log, plane.clouds)


class _Plane:
    """The control plane of one run."""

    def __init__(self, scenario: FleetScenario, around: Around, database: Database, home: Path) -> None:
        self._scenario, self._around = scenario, around
        self.clouds = {
            name: LogCloud(name, scenario.market.offers, scenario.start, scenario.seed, scenario.market.shared)
            for name in scenario.market.clouds
        }
        world = without_weights(_as_simulated(scenario), home)
        session = PlanningSession(
            around.libraries,
            PostgresPlans(database),
            around.progress,
            around.clock,
            method(scenario),
            SimulatedAttainment,
        )
        market = SimulatedMarket(database, scenario.market, self.clouds, scenario.start)
        demand = self._demand(database)
        longest_s = scenario.startup_s[1] + max(scenario.install_s.values(), default=0.0)
        lead_s = scenario.replan_s * ceil((longest_s + _SETTLE_S) / scenario.replan_s)
        self._plane = ControlPlane(
            database,
            lambda log: WatchedPlanner(
                session, world, market, demand, PostgresInstances(database).drained_since, log.planned
            ),
            self.clouds,
            SimulatedTimings(scenario.startup_s, _drains(scenario), scenario.seed, scenario.install_s),
            scenario.start,
            -lead_s if scenario.warm else 0.0,
        )
        self.log = self._plane.log

    def run(self) -> None:
        scenario, name = self._scenario, self._scenario.world.name
        self._plane.hold(name, scenario.spec, scenario.folder)
        self._plane.run_to_end(name, scenario.length_s, self._around.progress, "control plane")

    def _demand(self, database: Database) -> DemandSource:
        scenario = self._scenario
        if scenario.demand == DemandSeen.ORACLE:
            return KnownDemand(scenario.traffic, scenario.start, scenario.replan_s, scenario.length_s)
        return ReportedDemand(database, scenario.traffic, scenario.start, min(scenario.replan_s, scenario.length_s))


def without_weights(world: World, home: Path) -> World:
    """`world` where no weight is read: the machine that simulates need not have them."""
    weights = home / "weights"
    weights.mkdir()
    return replace(world, weights={served.model.id: f"path:{weights}" for served in world.recipe.served})


def _as_simulated(scenario: FleetScenario) -> World:
    """The fleet's world as its plane sees it. A baseline carries out what it plans: the churn guard is Medley's."""
    fleet = scenario.world.fleet.replanned_every(scenario.replan_s / 60)
    return replace(scenario.world, fleet=fleet if scenario.strategy == MEDLEY else fleet.without_churn_guard())


def method(scenario: Scenario) -> Method:
    """Return what makes its plans."""
    if scenario.fixed is not None:
        return _fixed(scenario.fixed)
    return method_of(scenario.strategy)


def _fixed(plan: Plan) -> Method:
    def again(snapshot: Snapshot, library: Library, solve: Solve) -> Plan:  # noqa: ARG001 - whatever there is
        return replace(plan, snapshot_version=snapshot.version, library_version=library.version)

    return again


def _drains(scenario: FleetScenario) -> Mapping[tuple[str, ...], float]:
    """As long as the longest answer takes at its objective: what is given to an instance last is finished then."""
    found: dict[tuple[str, ...], float] = {}
    for served in scenario.world.recipe.served:
        slo, tokens = served.slo, scenario.traffic.longest_output_tokens(served.name)
        prompt_s, answer_s = slo.ttft_ms / 1000, slo.tpot_ms * tokens / 1000
        both_s = prompt_s + answer_s
        for phase, seconds in ((Phase.PREFILL, prompt_s), (Phase.DECODE, answer_s), (Phase.AGGREGATED, both_s)):
            found[(served.class_id(phase),)] = min(seconds, _MOST_DRAIN_S)
    return found
