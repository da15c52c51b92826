"""Everything that serves on this machine while it is up."""

import asyncio
import contextlib
import logging
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from control.cloud.local.cloud import LocalCloud
from control.db.agent_keys import PostgresAgentKeys
from control.db.api_tokens import PostgresApiTokens
from control.db.database import Database
from control.db.instances import PostgresInstances
from control.db.intents import PostgresIntents
from control.db.nodes import PostgresNodes
from control.executor.node_start import NodeStart
from control.executor.nodes import NodeExecutor
from control.fleet.keeper import FleetKeeper, FleetOrder, KeeperSettings
from control.fleet.other_fleets import end_other_fleets
from control.fleet.publisher import Publisher
from control.fleet.routing import Routing
from control.fleet.stores import FleetStores
from control.hub.board import Board
from control.hub.hub import CHANNEL, Hub
from control.lifecycle.history import PastTransition
from control.up.gateway_process import GatewayError, GatewayProcess, ensure_gateway, running_gateway
from control.up.home import UpHome

_log = logging.getLogger(__name__)

OWNER = "medley-up"
_WATCH_S = 1.0
_IN_FLIGHT = timedelta(seconds=15)
"""The local cloud lists what it has created at once; a call to it takes no longer."""


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    home: UpHome
    database: Database
    cloud: LocalCloud
    order: FleetOrder
    routing: Routing
    host: str
    port: int
    """Of the gateway; 0: any."""


async def keep_up(
    site: Site,
    gateway: GatewayProcess,
    said: Callable[[PastTransition], None],
    found: Callable[[set[str]], None],
    stop: asyncio.Event,
) -> dict[str, str]:
    """Serve until `stop`, then end everything; node → why it may still run. `said` hears of every step in an
    instance's life, `found` of the instances that an earlier run left ready.

    Raises OSError when the ports of the control plane are taken, BadKeyError for a damaged key file.
    """
    keys, ports, now = site.home.keys("control"), site.home.ports(), _now
    stores = FleetStores(
        PostgresInstances(site.database),
        PostgresNodes(site.database),
        NodeExecutor(PostgresIntents(site.database), {site.cloud.name: site.cloud}, OWNER, now),
    )
    board = Board({site.home.keys("gateway").public: "gateway"}, CHANNEL.lost_after_s, time.monotonic())
    publisher = Publisher(site.home.table, site.routing, PostgresApiTokens(site.database), now)
    keeper = FleetKeeper(site.order, stores, board, publisher.publish, said, KeeperSettings(in_flight=_IN_FLIGHT))
    keeper.expect(publisher.addresses)
    left = await asyncio.to_thread(end_other_fleets, site.cloud.name, site.order.name, stores)
    for node, why in left.items():
        _log.warning("%s of an earlier fleet may still run: %s", node, why)
    await keeper.load()
    _clean(site.home, keeper.nodes)
    found(keeper.ready)
    agent_keys = PostgresAgentKeys(site.database)
    known = await asyncio.to_thread(agent_keys.living)
    hub = Hub(_local(ports.hub), _local(ports.registry), keys, agent_keys, known, board, now)
    keeper.begin(hub, _node_start(site.home, hub, keys.public))
    tasks = [asyncio.create_task(keeper.run()), asyncio.create_task(_keep_gateway(site, gateway))]
    stopped = asyncio.create_task(stop.wait())
    try:
        done, _ = await asyncio.wait((*tasks, stopped), return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()  # a loop that broke is a bug: it is told after everything has ended
    finally:
        for task in (*tasks, stopped):
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks, return_exceptions=True)
        if (serving := running_gateway(site.home)) is not None:
            await asyncio.to_thread(serving.stop)
        left = await keeper.end()
        hub.close()
        _clean(site.home, keeper.nodes)
    return left


async def _keep_gateway(site: Site, gateway: GatewayProcess) -> None:
    """It is started again whenever it dies."""
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


def _node_start(home: UpHome, hub: Hub, public_key: str) -> NodeStart:
    home.nodes.mkdir(exist_ok=True, mode=0o700)
    command = (sys.executable, "-m", "agents.node", "--registry", hub.registry_endpoint, "--hub", hub.endpoint)
    return NodeStart((*command, f"--control-key={public_key}", "--home", str(home.nodes)))


def _local(port: int) -> str:
    return f"tcp://127.0.0.1:{port}"


def _now() -> datetime:
    return datetime.now(UTC)
