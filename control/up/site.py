"""Everything that serves on this machine while it is up."""

import asyncio
import contextlib
import logging
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from control.alerts.watch import ALERTS_S, AlertWatch
from control.chore import Chore
from control.cloud.local.cloud import LocalCloud
from control.db.agent_keys import PostgresAgentKeys
from control.db.audit_seals import SEALS_S, PostgresAuditSeals
from control.db.database import Database
from control.db.demand import PostgresDemand
from control.demand.desk import DemandDesk
from control.demand.heard_load import HeardLoad
from control.executor.node_start import NodeStart
from control.fleet.assembly import assemble
from control.fleet.effects import ThreadEffects
from control.fleet.keeper import Keeper
from control.fleet.keeper_settings import KeeperSettings
from control.fleet.publisher import Publisher
from control.fleet.run import run
from control.hub.hub import Hub
from control.reconcile.node_starts import NodeStarts
from control.up.gateway_process import GatewayError, GatewayProcess, ensure_gateway, running_gateway
from control.up.home import UpHome

_log = logging.getLogger(__name__)

OWNER = "medley-up"
_HERE = "127.0.0.1"
_WATCH_S = 1.0
_IN_FLIGHT = timedelta(seconds=15)
"""The local cloud lists what it has created at once; a call to it takes no longer."""


class Loop(Protocol):
    """Loop that decides for a site."""

    @property
    def heard(self) -> HeardLoad:
        """What it is to know of the last seconds' load."""
        ...

    def load(self) -> None:
        """Take over what an earlier run left. Called once, before nodes are listened to."""
        ...

    def tick(self) -> None:
        """One round, in a thread."""
        ...

    def wake(self, fleet: str, why: str) -> None:
        """Plan a fleet as soon as possible."""
        ...


@dataclass(frozen=True, slots=True)
class LoopParts:
    """Parts that a loop of a site works with."""

    keeper: Keeper
    publisher: Publisher
    effects: ThreadEffects
    start: NodeStart
    """What a new node of the local cloud runs."""


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    home: UpHome
    database: Database
    cloud: LocalCloud
    loop: Callable[[LoopParts], Loop]
    host: str
    port: int
    """Port of the gateway; 0: any."""
    now: Callable[[], datetime]
    epoch: Callable[[], int] | None = None
    """Epoch in which its loop leads (`PostgresIntents`)."""


async def keep_up(
    site: Site, gateway: GatewayProcess, found: Callable[[set[str]], None], stop: asyncio.Event
) -> dict[str, str]:
    """Serve until `stop`, then end everything; node → why it may still run. `found` gets the instances that an
    earlier run left ready.

    Raises OSError when the ports of the control plane are taken, BadKeyError for a damaged key file, and what the
    loop's `load` raises.
    """
    keys, ports, gateways = site.home.keys("control"), site.home.ports(), site.home.gateway_keys()
    clouds, settings = {site.cloud.name: site.cloud}, KeeperSettings(in_flight=_IN_FLIGHT)
    made = assemble(site.database, clouds, OWNER, gateways, site.home.table, settings, site.now, site.epoch)
    keeper, board, effects = made.keeper, made.board, made.effects
    hub_at, registry_at = _local(ports.hub), _local(ports.registry)
    starts = NodeStarts(clouds, _HERE, ports.hub, ports.registry, keys.public, site.home)
    start = starts[site.cloud.name]
    loop = site.loop(LoopParts(keeper, made.publisher, effects, start))
    await asyncio.to_thread(loop.load)
    _clean(site.home, keeper.nodes)
    found(keeper.ready)
    agent_keys = PostgresAgentKeys(site.database)
    known = await asyncio.to_thread(agent_keys.living)
    hub = Hub(hub_at, registry_at, keys, agent_keys, known, board, site.now)
    desk = DemandDesk(_local(0), keys, gateways, PostgresDemand(site.database), site.now, loop.wake, loop.heard)
    made.publisher.tell_demand_to(desk.address)
    alerts = Chore("alerts", AlertWatch(site.database, site.now).step, ALERTS_S, ALERTS_S)
    alerts.begin()
    seals = Chore("seals of events", PostgresAuditSeals(site.database).seal, SEALS_S)
    seals.begin()
    tasks = [asyncio.create_task(work) for work in (run(loop, hub), desk.run(), _keep_gateway(site, gateway))]
    stopped = asyncio.create_task(stop.wait())
    try:
        done, _ = await asyncio.wait((*tasks, stopped), return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()  # a loop that broke is a bug: it is raised after everything has ended
    finally:
        alerts.end()
        seals.end()
        for task in (*tasks, stopped):
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks, return_exceptions=True)
        if (serving := running_gateway(site.home)) is not None:
            await asyncio.to_thread(serving.stop)
        loop_of_hub = asyncio.get_running_loop()
        left = await asyncio.to_thread(keeper.end, lambda: _soon(loop_of_hub, hub.tell))
        effects.close()
        desk.close()
        hub.close()
        _clean(site.home, keeper.nodes)
    return left


async def _keep_gateway(site: Site, gateway: GatewayProcess) -> None:
    """Start the gateway again whenever it dies."""
    while True:
        await asyncio.sleep(_WATCH_S)
        if not gateway.lives:
            port = int(gateway.url.rpartition(":")[2])
            _log.error("the gateway has ended; starting it again")
            try:
                gateway = await asyncio.to_thread(ensure_gateway, site.home, site.host, port)
            except (GatewayError, OSError) as error:
                _log.error("%s", error)


def _clean(home: UpHome, held: set[str]) -> None:
    """Remove what nodes that are gone kept for themselves."""
    for directory in home.nodes.glob("*"):
        if directory.name not in held:
            shutil.rmtree(directory, ignore_errors=True)


def _soon(loop: asyncio.AbstractEventLoop, work: Callable[[], None]) -> None:
    loop.call_soon_threadsafe(work)


def _local(port: int) -> str:
    return f"tcp://{_HERE}:{port}"
