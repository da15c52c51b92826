"""The reconcile loop as a process: it leads or waits to, listens to nodes meanwhile, and leaves them at its end."""

import asyncio
import logging
import os
import signal
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

from agents.channels.keys import KeyPair
from control.alerts.watch import ALERTS_S, AlertWatch
from control.chore import Chore
from control.cloud.local.cloud import LocalCloud
from control.cloud.local.kinds import DEFAULT_MACHINES
from control.cloud.port import Cloud
from control.cloud.ssh.cloud import OwnMachines
from control.db.agent_keys import PostgresAgentKeys
from control.db.audit_seals import SEALS_S, PostgresAuditSeals
from control.db.database import Database
from control.db.demand import PostgresDemand
from control.db.errors import DatabaseUnavailableError
from control.db.installation import owner_of
from control.db.leader import PostgresLeader
from control.db.nodes import PostgresNodes
from control.db.shared_clock import shared_clock
from control.demand.desk import DemandDesk
from control.fleet.assembly import Assembly, assemble
from control.fleet.keeper_settings import KeeperSettings
from control.fleet.run import TICK_S, run
from control.hub.hub import Hub
from control.lifecycle.history import PastTransition
from control.market.watch import LOOK_S, MarketWatch
from control.offers.live.readers import cloud_readers
from control.overlay.identity import OverlayIdentity
from control.overlay.interface import OverlayError, OverlayInterface
from control.overlay.invitation import OVERLAY_PORT, OverlayInvitation
from control.planning.world import World
from control.reconcile.clouds import Clouds
from control.reconcile.daemon_home import DaemonHome
from control.reconcile.fleet_planner import FleetPlanner
from control.reconcile.launch_check import LaunchCheck
from control.reconcile.node_starts import NodeStarts, check_way_back
from control.reconcile.reconcile_ports import ReconcilePorts
from control.reconcile.reconciler import Reconciler
from control.reconcile.stores import ReconcileStores
from control.reconcile.tokenizers import Tokenizers
from templates_lib.values.clouds import CLOUDS, LOCAL, OWNED
from templates_lib.values.plan import Plan

_log = logging.getLogger(__name__)

_STAND_BY_S = 2.0
_ADMIT_S = 2.0
"""Between two looks at which nodes are in the overlay: a node takes longer to boot."""
_IN_FLIGHT = timedelta(minutes=25)
"""Longer than any call to a cloud takes: SkyPilot's launches wait for a machine, its runtime and a set-up."""


class LostLeadershipError(RuntimeError):
    """Another process leads by now: this one is to be started again, and to stand by."""


@dataclass(frozen=True, slots=True)
class DaemonSettings:
    home: DaemonHome
    bind: str
    """Address to listen on for nodes."""
    address: str
    """Host name or address by which nodes of other machines reach it."""
    hub_port: int
    registry_port: int
    demand_port: int = 0
    """Gateways tell it what is asked of models; 0: any, which they learn from the routing table."""
    reach_s: float = 45.0
    """A load balancer, or a name, leads nodes to a new leader only after a while: no node is missed before."""
    images: Mapping[str, str] = field(default_factory=dict)
    """As of `SkyPilotSettings`."""
    overlay_port: int = OVERLAY_PORT
    """UDP: nodes of fleets with an overlay network call there."""
    once_s: float = 0.0
    """Above 0: end as soon as every fleet is as its plan wants it, and after this time at the latest."""


@dataclass(frozen=True, slots=True)
class DaemonOutcome:
    settled: bool
    """Every fleet is as its plan wants it."""
    trouble: dict[str, str]
    """Fleet → why it cannot be planned or run."""
    stood_by: bool
    """Another process led all the time."""


class Daemon:
    def __init__(
        self,
        database: Database,
        planner: FleetPlanner,
        settings: DaemonSettings,
        makers: Mapping[str, Callable[[], Cloud]],
    ) -> None:
        """`makers`: of adapters, beside the local cloud's."""
        self._database = database
        self._planner = planner
        self._settings = settings
        self._owner = owner_of(database)
        self._now = shared_clock(database)
        self._identity = OverlayIdentity.of_file(settings.home.overlay_key)
        self._overlay = OverlayInterface(self._identity, settings.overlay_port)
        local = {LOCAL: lambda: LocalCloud(settings.home.cloud, [machine.kind for machine in DEFAULT_MACHINES])}
        self._clouds = Clouds({**makers, **local})
        self._leader = PostgresLeader(database, f"{socket.gethostname()}, process {os.getpid()}")

    async def serve(self) -> DaemonOutcome:
        """Serve until SIGINT or SIGTERM, or with `once_s` until all is done. What runs is left running.

        Raises OSError when the ports are taken, DeposedError, BadKeyError for a damaged key file."""
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        for name in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(name, stop.set)
        keys, gateways = self._settings.home.keys("control"), self._settings.home.gateway_keys()
        made = assemble(
            self._database, self._clouds, self._owner, gateways, self._settings.home.table,
            KeeperSettings(in_flight=_IN_FLIGHT, first_in_flight=_IN_FLIGHT), self._now, lambda: self._leader.epoch,
        )  # fmt: skip
        reconciler, watch = Reconciler(self._ports(made, keys)), AlertWatch(self._database, self._now)
        alerts = Chore("alerts", watch.step, ALERTS_S, ALERTS_S)
        seals = Chore("seals of events", PostgresAuditSeals(self._database).seal, SEALS_S)
        seals.begin()
        if not self._settings.once_s:
            alerts.begin()  # also while it stands by: a leader that hangs is among what there is to tell
        try:
            if not await self._stand_by(reconciler, stop):
                return DaemonOutcome(False, {}, True)
            outcome = await self._lead(reconciler, made, keys, stop)
            if self._settings.once_s:
                await asyncio.to_thread(watch.step)
            return outcome
        finally:
            alerts.end()
            seals.end()
            await asyncio.to_thread(made.effects.close)
            self._leader.resign()

    def _ports(self, made: Assembly, keys: KeyPair) -> ReconcilePorts:
        settings, home = self._settings, self._settings.home
        of_starts = self._clouds, settings.address, settings.hub_port, settings.registry_port, keys.public, home
        invitation = OverlayInvitation(self._identity, settings.address, settings.overlay_port)
        stores = ReconcileStores.of(self._database)
        return ReconcilePorts(
            stores, self._leader, self._planner, made.keeper, made.publisher, made.effects, self._now,
            on_transition=_on_transition,
            starts=NodeStarts(*of_starts), overlaid=NodeStarts(*of_starts, invitation), reach=self._reach,
            preflight=LaunchCheck(
                self._clouds, settings.address, settings.images, self._now, time.monotonic, cloud_readers(os.environ)
            ),
            tokenizer=Tokenizers(home.tokenizers, made.effects),
        )  # fmt: skip

    def _reach(self, world: World, plan: Plan) -> None:
        for cloud in sorted({planned.zone.partition("/")[0] for planned in plan.instances}):
            if self._clouds.has(cloud) and cloud not in (LOCAL, OWNED):
                # Before there is an adapter, for which SkyPilot's server is started: that takes a third of a minute.
                check_way_back(cloud, self._settings.address)
            if world.fleet.sources.reach.overlays(cloud):
                self._open_overlay()
            adapter = self._clouds.need(cloud)
            if isinstance(adapter, LocalCloud):
                adapter.offer(machine.kind for machine in world.fleet.machines)
            elif isinstance(adapter, OwnMachines):
                adapter.offer(world.fleet.hosts)

    def _open_overlay(self) -> None:
        """Raises OverlayError."""
        if _listening_on(self._settings.bind) != "[::]":
            raise OverlayError("nodes call over `network.overlay`: start `medley reconcile` with --bind 0.0.0.0")
        self._overlay.up()

    def _admit_to_overlay(self) -> None:
        nodes = PostgresNodes(self._database)
        self._overlay.admit(name for cloud, kind in CLOUDS.items() if kind.takes_overlay for name in nodes.held(cloud))

    async def _stand_by(self, reconciler: Reconciler, stop: asyncio.Event) -> bool:
        """Wait until this process leads (True), or is to end, or has waited for as long as it may."""
        give_up_s = time.monotonic() + (self._settings.once_s or float("inf"))
        while not stop.is_set() and time.monotonic() < give_up_s:
            try:
                await asyncio.to_thread(self._reach_what_runs)
                if await asyncio.to_thread(reconciler.load):
                    return True
            except DatabaseUnavailableError as error:
                _log.warning("%s", error)
            if self._settings.once_s:
                return False
            await _until(stop, _STAND_BY_S)
        return False

    def _reach_what_runs(self) -> None:
        """Clouds where anything was rented and is not known to be gone are asked, whatever fleets want now."""
        for cloud in ReconcileStores.of(self._database).clouds_in_use():
            self._clouds.need(cloud)

    async def _lead(self, reconciler: Reconciler, made: Assembly, keys: KeyPair, stop: asyncio.Event) -> DaemonOutcome:
        settings, agent_keys = self._settings, PostgresAgentKeys(self._database)
        prices = MarketWatch(self._database, os.environ, wake=reconciler.wake)
        market = Chore("market watch", lambda: prices.step(self._now()), LOOK_S)
        overlay = Chore("overlay", self._admit_to_overlay, _ADMIT_S)
        if settings.once_s:
            await asyncio.to_thread(prices.step, self._now())  # it makes one plan, of what clouds ask now
        known = await asyncio.to_thread(agent_keys.living)
        bind = _listening_on(settings.bind)
        hub = Hub(
            f"tcp://{bind}:{settings.hub_port}", f"tcp://{bind}:{settings.registry_port}", keys, agent_keys, known,
            made.board, self._now,
        )  # fmt: skip
        made.board.opens(time.monotonic() + settings.reach_s)
        desk = DemandDesk(
            f"tcp://{bind}:{settings.demand_port}", keys, settings.home.gateway_keys(),
            PostgresDemand(self._database), self._now, reconciler.wake, reconciler.heard,
        )  # fmt: skip
        made.publisher.tell_demand_to(replace(desk.address, endpoint=_reached(settings.address, desk.address.endpoint)))
        if not settings.once_s:
            market.begin()
        overlay.begin()
        running, listening = asyncio.create_task(run(reconciler, hub)), asyncio.create_task(desk.run())
        give_up_s = time.monotonic() + (settings.once_s or float("inf"))
        try:
            while not stop.is_set() and time.monotonic() < give_up_s:
                for each in (running, listening):
                    if each.done():
                        each.result()
                if settings.once_s and reconciler.is_settled():
                    break
                if reconciler.is_deposed():
                    raise LostLeadershipError(
                        "another control plane leads, or the database is not the one it was: start this one again"
                    )
                await _until(stop, TICK_S)
            return DaemonOutcome(reconciler.is_settled(), reconciler.trouble(), False)
        finally:
            running.cancel()
            market.end()
            overlay.end()
            listening.cancel()
            await asyncio.gather(running, listening, return_exceptions=True)
            desk.close()
            hub.close()


def _listening_on(bind: str) -> str:
    """Return the host to listen on: all IPv4 addresses are all of both kinds, where there are both, for nodes that call
    over the overlay."""
    return "[::]" if bind == "0.0.0.0" and socket.has_dualstack_ipv6() else bind  # noqa: S104 - if that is asked for


async def _until(stop: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        pass


def _on_transition(fleet: str, step: PastTransition) -> None:
    _log.info("fleet %s: %s %s -> %s: %s", fleet, step.instance_id, step.from_state, step.to_state, step.reason)


def _reached(address: str, endpoint: str) -> str:
    """Return the address at which gateways, which read this control plane's table, reach the listener at `endpoint`."""
    host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
    return f"tcp://{address or ('127.0.0.1' if host == '0.0.0.0' else host)}:{port}"  # noqa: S104 - it is replaced
