"""A fleet that runs: local cloud, nodes, engines and a gateway as processes; the control plane in the test's own."""

import asyncio
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest

from agents.channels.keys import KeyPair
from control.cloud.local.cloud import LocalCloud
from control.cloud.local.kind import LocalKind
from control.cloud.port import Cloud
from control.db.agent_keys import PostgresAgentKeys
from control.db.api_tokens import PostgresApiTokens
from control.db.database import Database
from control.db.instances import PostgresInstances
from control.db.intents import PostgresIntents
from control.db.nodes import PostgresNodes
from control.diff.supply import supply_of
from control.diff.target import targets
from control.executor.node_start import NodeStart
from control.executor.nodes import NodeExecutor
from control.fleet.effects import ThreadEffects
from control.fleet.keeper import Keeper
from control.fleet.keeper_settings import KeeperSettings
from control.fleet.observer import NoObserver
from control.fleet.order import FleetOrder
from control.fleet.publisher import Publisher
from control.fleet.routing import GatewayModel, Routing, gateway_model
from control.fleet.run import run
from control.fleet.stores import FleetStores
from control.gateway.published_app import ServedApp
from control.hub.board import Board
from control.hub.deployed import ModelFiles
from control.hub.hub import Hub
from control.lifecycle.history import PastTransition
from templates_lib.values.offer import Offer
from templates_lib.values.plan import Flow, Plan, PlannedInstance
from tests.control.fleet.fleets import MARKET, ZONE, plan_of
from tests.control.fleet.test_routing import MODEL
from tests.control.lifecycle.worlds import START

STOCK = 4
MEMORY_MIB = 10
"""For weights and KV cache of a node: far less than its processes take."""
CONTEXT, VOCABULARY = 256, 192
LOST_AFTER_S = 15.0
PATIENCE_S = 300.0
"""Nodes and workers start meanwhile, on a machine that may be busy."""


def a_plan(name: str, *instances: PlannedInstance) -> Plan:
    return plan_of(instances, [], [Flow("chat/aggregated", (ZONE,), 1.0, 0.0)], id=name)


@dataclass
class Place:
    """What outlives a control plane."""

    database: Database
    folder: Path
    weights: Path
    tokenizer: Path
    gateway_key: str
    keys: KeyPair = field(default_factory=KeyPair.generate)
    bound: tuple[str, str] = ("tcp://127.0.0.1:0", "tcp://127.0.0.1:0")
    kinds: tuple[LocalKind, ...] = (LocalKind("small", 2.0, 1024, STOCK),)
    memory_mib: dict[str, int] = field(default_factory=lambda: {"small:1/n10": MEMORY_MIB})
    """Of configurations; others are told no budget."""
    prefix: tuple[str, ...] = ()
    """Of the command of a node, such as what runs it in a network of its own."""
    node_environment: dict[str, str] = field(default_factory=dict)
    weights_of: dict[str, Path] = field(default_factory=dict)
    """Of models that have others than the rest."""
    lost_after_s: float = LOST_AFTER_S
    in_flight: timedelta = timedelta(seconds=15)
    end_s: float = 120.0
    """Instances are told to drain and do, however long that takes on a busy machine."""
    patience_s: float = PATIENCE_S

    @property
    def table(self) -> Path:
        return self.folder / "table.json"

    def cloud(self) -> Cloud:
        return LocalCloud(self.folder / "cloud", self.kinds)

    def give_back(self) -> None:
        """End all nodes that are left."""
        cloud = self.cloud()
        for node in cloud.list({}, START):
            cloud.terminate(node.name, START)

    def start(self, hub: Hub) -> NodeStart:
        """What nodes run."""
        agent = (sys.executable, *self.agent(hub), "--home", str(self.folder / "nodes"))
        return NodeStart((*self.prefix, *agent), self.node_environment)

    def agent(self, hub: Hub) -> tuple[str, ...]:
        """Arguments of the interpreter for an agent of this hub."""
        where = ("--hub", hub.endpoint, "--registry", hub.registry_endpoint)
        return ("-m", "agents.node", *where, f"--control-key={self.keys.public}")

    def offers(self) -> tuple[Offer, ...]:
        """One device is a whole node of its kind."""
        return tuple(
            Offer("local", "here", "here", kind.name, f"{kind.name}:1/n10", MARKET, 0.01, kind.stock)
            for kind in self.kinds
        )

    def text_model(self, name: str) -> GatewayModel:
        """A text model as gateways know it."""
        model = replace(MODEL, name=name, model=replace(MODEL.model, max_context_tokens=CONTEXT))
        return gateway_model(model, str(self.tokenizer), 1)

    def pids(self) -> dict[int, str]:
        """Of all processes that work in its folder, with what they are."""
        found = {}
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if str(self.folder / "nodes") in " ".join(process.cmdline()):
                    found[process.pid] = process.cmdline()[2]
        return found


class ControlPlane(NoObserver):
    """One that keeps `plan`, which serves `models`; made on a running loop."""

    def __init__(
        self,
        place: Place,
        plan: Plan,
        earlier: tuple[Plan, ...] = (),
        models: Mapping[str, GatewayModel] | None = None,
        components: tuple[str, ...] = (),
        apps: tuple[ServedApp, ...] = (),
    ) -> None:
        """`models`: a text model named chat where nothing else is said. `components`: of executors, beside those.
        `apps`: whose request types some models serve."""
        self.place, self._cloud = place, place.cloud()
        self.steps: list[PastTransition] = []
        database, now = place.database, lambda: datetime.now(UTC)
        served = {"chat": place.text_model("chat")} if models is None else models
        names = (*served, *components)
        weights = {name: place.weights_of.get(name, place.weights) for name in names}
        files = {name: ModelFiles(name, f"path:{weights[name]}", VOCABULARY, CONTEXT) for name in names}
        self.stores = FleetStores(
            PostgresInstances(database),
            PostgresNodes(database),
            NodeExecutor(PostgresIntents(database), {self._cloud.name: self._cloud}, "live", now),
        )
        self.board = Board({place.gateway_key: "gateway"}, place.lost_after_s, time.monotonic())
        publisher, self.effects = Publisher(place.table, PostgresApiTokens(database), now), ThreadEffects()
        publisher.serve("live", Routing(plan, served, apps=apps))
        settings = KeeperSettings(0.5, place.in_flight, end_s=place.end_s)
        self.keeper = Keeper(self.stores, self.board, self.effects, publisher.publish, settings)
        self.keeper.observer = self
        self.keeper.expect(publisher.addresses)
        self._order = FleetOrder(
            "live",
            targets(plan),
            tuple(each for old in earlier for each in targets(old)),
            supply_of(place.offers(), (), {}, 0),
            files,
            place.memory_mib,
        )

    def on_transition(self, fleet: str, step: PastTransition) -> None:  # noqa: ARG002
        self.steps.append(step)

    async def start(self) -> None:
        place, agent_keys = self.place, PostgresAgentKeys(self.place.database)
        self.keeper.keep(self._order)
        await asyncio.to_thread(self.keeper.load)
        self.hub = Hub(*place.bound, place.keys, agent_keys, agent_keys.living(), self.board, lambda: datetime.now(UTC))
        place.bound = self.hub.endpoint, self.hub.registry_endpoint
        self.keeper.keep(replace(self._order, starts={self._cloud.name: place.start(self.hub)}))
        self.running = asyncio.create_task(run(self.keeper, self.hub, 0.05))

    async def kill(self) -> None:
        """It does nothing more, and has ended nothing."""
        await self._stop()
        await asyncio.to_thread(self.effects.close)
        self.hub.close()

    async def end(self) -> dict[str, str]:
        await self._stop()
        loop = asyncio.get_running_loop()

        def tell() -> None:
            loop.call_soon_threadsafe(self.hub.tell)

        left = await asyncio.to_thread(self.keeper.end, tell)
        self.effects.close()
        self.hub.close()
        return left

    async def _stop(self) -> None:
        self.running.cancel()
        with suppress(asyncio.CancelledError):
            await self.running

    async def until(self, condition: Callable[[], Any]) -> None:
        try:
            async with asyncio.timeout(self.place.patience_s):
                while not condition():
                    if self.running.done():
                        self.running.result()
                    await asyncio.sleep(0.02)
        except TimeoutError:
            waited = f"not within {self.place.patience_s:.0f} s; steps so far:"
            pytest.fail("\n".join((waited, *map(str, self.steps))))

    async def until_ready(self, *, but: str = "") -> str:
        """Id of the instance that is ready, once there is one that is not `but`."""
        await self.until(lambda: self.keeper.ready - {but})
        (instance,) = self.keeper.ready - {but}
        return instance

    def launch_no_more(self) -> None:
        """Keep what there is, and replace nothing that fails."""
        self.keeper.keep(replace(self._order, starts={}))

    def reasons(self, state: str) -> list[str]:
        return [step.reason for step in self.steps if step.to_state == state]
