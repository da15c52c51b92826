"""The real reconcile loop, its planner's plans and its database, over a cloud made of logs; time is the caller's."""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from math import ceil, inf

from agents.channels.address import Address
from control.db.database import Database
from control.db.fleets import PostgresFleets
from control.db.instances import PostgresInstances
from control.db.intents import PostgresIntents
from control.db.leader import PostgresLeader
from control.db.nodes import PostgresNodes
from control.executor.node_start import NodeStart
from control.executor.nodes import NodeExecutor
from control.fleet.effects import InlineEffects
from control.fleet.keeper import Keeper
from control.fleet.keeper_settings import KeeperSettings
from control.fleet.stores import FleetStores
from control.hub.board import Board
from control.hub.gang import placed_gang
from control.lifecycle.event import Event
from control.lifecycle.fleet import FleetMode
from control.reconcile.fleet_planner import FleetPlanner
from control.reconcile.reconcile_ports import ReconcilePorts
from control.reconcile.reconciler import Reconciler
from control.reconcile.stores import ReconcileStores
from control.simulator.log_cloud import LogCloud
from control.simulator.plane_log import PlaneLog
from control.simulator.simulated_timings import SimulatedTimings
from templates_lib.ports.source import Progress
from templates_lib.values.engines import ENGINES
from templates_lib.values.instance import Instance

OWNER = "simulated"
"""Names of simulated nodes, by their tag."""
_STEP_S = 1.0
"""Seconds between rounds while something happens."""
_IDLE_S = 60.0
"""Between rounds, at most, while a fleet is not as its plan wants it: what waits (a back-off, a stock-out) does so for
seconds first, then for longer."""
_NOWHERE = Address("tcp://127.0.0.1:9", "0" * 40)
"""Address of schedulers that there are none of."""


class ControlPlane:
    """One fleet, in mode auto. Between two rounds in which anything could happen time is skipped."""

    def __init__(
        self,
        database: Database,
        planner: Callable[[PlaneLog], FleetPlanner],
        clouds: Mapping[str, LogCloud],
        manner: SimulatedTimings,
        start: datetime,
        begin_s: float = 0.0,
    ) -> None:
        """`begin_s`: of its clock, relative to `start`; below 0 to have something run by then."""
        self._start, self._begin_s, self.now_s = start, begin_s, begin_s
        self._stepped_s = begin_s
        """When something changed last."""
        self.log = PlaneLog(start, lambda: self.now_s)
        self.instances = PostgresInstances(database)
        self._clouds, self._manner = clouds, manner
        leader = PostgresLeader(database, OWNER)
        executor = NodeExecutor(PostgresIntents(database, lambda: leader.epoch), clouds, OWNER, self.now)
        self.keeper = Keeper(
            FleetStores(self.instances, PostgresNodes(database), executor), Board({}, 1e12, 0.0), InlineEffects(),
            self.log.publish, KeeperSettings(_STEP_S, timedelta(0)), self._monotonic, placed_gang,
        )  # fmt: skip
        starts = {cloud: NodeStart(("true",), engines=frozenset(ENGINES)) for cloud in clouds}
        self._loop = Reconciler(
            ReconcilePorts(
                ReconcileStores.of(database), leader, planner(self.log), self.keeper, self.log, InlineEffects(),
                self.now, self._monotonic, on_transition=self.log.on_transition, starts=starts, gang=placed_gang,
            )
        )  # fmt: skip
        self._fleets = PostgresFleets(database)

    def hold(self, name: str, spec: str, folder: str) -> None:
        """The fleet of a spec, from now on."""
        self._fleets.create(name, spec, self.now(), mode=FleetMode.AUTO, folder=folder)

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self.now_s)

    def run_until(self, until_s: float) -> Iterator[float]:
        """Yields the time after each leap, `until_s` last."""
        while True:
            self._settle(until_s)
            self.now_s = min(until_s, max(self._next_s(), self.now_s + _STEP_S))
            yield self.now_s
            if self.now_s >= until_s:
                return

    def run_to_end(self, fleet: str, until_s: float, progress: Progress, what: str) -> None:
        """`progress` hears of minutes of `what`. Raises ValueError for a fleet that cannot be planned at all."""
        begin_s, minutes = self.now_s, ceil((until_s - self.now_s) / 60)
        for now_s in self.run_until(until_s):
            progress(what, min(int((now_s - begin_s) / 60), minutes - 1), minutes)
            if not self.log.plans and self.log.troubles:
                raise ValueError(f"fleet {fleet} {self.log.troubles[-1][1]}")
        progress(what, minutes, minutes)

    def tick(self) -> bool:
        """One round now; whether anything took a step."""
        before, plans = self.instances.last_step(), len(self.log.plans)
        self.keeper.expect(dict.fromkeys(self.keeper.members, _NOWHERE))
        self._loop.tick()
        self.log.met(self.keeper.known)
        self.log.trouble("; ".join(self._loop.trouble().values()))
        for instance, event, at_s in self._words():
            if at_s <= self.now_s:
                self.instances.apply(instance.id, event, self.now())
        stepped = self.instances.last_step() != before or len(self.log.plans) != plans
        if stepped:
            self._stepped_s = self.now_s
        return stepped

    def _settle(self, until_s: float) -> None:
        """Rounds until one changes nothing."""
        while self.tick() and self.now_s + _STEP_S < until_s:
            self.now_s += _STEP_S

    def _next_s(self) -> float:
        """When something will happen."""
        words = (at_s for _, _, at_s in self._words())
        losses = (cloud.next_loss_s() for cloud in self._clouds.values())
        idle = inf
        if not self.keeper.is_settled():
            idle = self.now_s + min(max(self.now_s - self._stepped_s, _STEP_S), _IDLE_S)
        return min(self._begin_s + self._loop.due_s(), idle, *words, *losses)

    def _words(self) -> Iterator[tuple[Instance, Event, float]]:
        """What nodes will say, and when. Those that are gone say nothing."""
        for instance in self.keeper.known:
            word = self._manner.next_event(instance, self.log.wanted.get(instance.id))
            if word is not None and self._is_whole(instance):
                event, after_s = word
                since = datetime.fromisoformat(instance.state_since)
                yield instance, event, (since - self._start).total_seconds() + after_s

    def _is_whole(self, instance: Instance) -> bool:
        cloud = self._clouds[instance.zone.partition("/")[0]]
        return all(cloud.has(node.id) for node in instance.nodes)

    def _monotonic(self) -> float:
        """Seconds from 0 on, as clocks of machines count."""
        return self.now_s - self._begin_s
