"""What keeps a fleet, on a real database and a cloud that a test can break: no node ever runs."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import pairwise
from typing import Any, cast

import pytest

from control.cloud.fake import FakeCloud
from control.db.database import Database
from control.db.instances import PostgresInstances
from control.executor.node_start import NodeStart
from control.fleet.keeper import FleetKeeper, FleetOrder, KeeperSettings, Ready
from control.fleet.other_fleets import end_other_fleets
from control.fleet.stores import FleetStores
from control.fleet.wanted import Wanted
from control.hub.board import Board
from control.hub.deployed import ModelFiles
from control.hub.hub import Hub
from control.lifecycle.event import Event, EventKind
from control.lifecycle.history import PastTransition
from control.lifecycle.state import InstanceState
from templates_lib.instance import Instance
from templates_lib.offer import Market, Offer
from tests.control.executor.fleets import fleet
from tests.control.fleet.fleets import template
from tests.control.lifecycle.worlds import START

FILES = ModelFiles("chat", "path:/weights", 192, 256)
ZONE = "fake/here"
START_COMMAND = NodeStart(("true",))


class Told:
    """In the hub's place: counts the rounds of a keeper."""

    def __init__(self) -> None:
        self.rounds = 0

    def tell(self) -> None:
        self.rounds += 1

    async def refresh(self) -> None: ...


def wish(layers: tuple[int, ...] = (4, 2), plan_id: str = "plan-1") -> Wanted:
    return Wanted(plan_id, template(layers), "chat", "whole", ZONE, Market.ON_DEMAND, 1, 2.0)


@dataclass
class World:
    database: Database
    stock: int = 4
    files: dict[str, ModelFiles] = field(default_factory=lambda: {"chat": FILES})
    wanted: tuple[Wanted, ...] = (wish(),)
    earlier: tuple[Wanted, ...] = ()
    steps: list[PastTransition] = field(default_factory=list)
    published: list[Ready] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.cloud = FakeCloud("fake", {"small": self.stock})
        self.medley = fleet(self.database, self.cloud)
        self.stores = FleetStores(self.medley.instances, self.medley.nodes, self.medley.executor)
        self.told = Told()

    def publish(self, ready: Ready) -> None:
        self.published.append(list(ready))

    def keeper(self) -> FleetKeeper:
        offer = Offer("fake", "here", "here", "small", "small:1/n10", Market.ON_DEMAND, 1.0)
        order = FleetOrder("f", self.wanted, self.earlier, (offer,), self.files, {})
        settings = KeeperSettings(0.01, 0.05, timedelta(0), end_s=0.1)
        board = Board({}, 1e9, 0.0)
        keeper = FleetKeeper(order, self.stores, board, self.publish, self.steps.append, settings)
        keeper.begin(cast("Hub", self.told), START_COMMAND)
        return keeper

    def play(self, scenario: Callable[["World", FleetKeeper], Awaitable[None]]) -> None:
        async def main() -> None:
            keeper = self.keeper()
            await keeper.load()
            running = asyncio.create_task(keeper.run())
            try:
                async with asyncio.timeout(60):
                    await scenario(self, keeper)
                assert not running.done(), "nothing that happens to it ends it"
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
                await keeper.end()

        asyncio.run(main())

    async def until(self, condition: Callable[[], Any]) -> None:
        while not condition():
            await asyncio.sleep(0.005)

    def reasons(self, state: InstanceState) -> list[str]:
        return [step.reason for step in self.steps if step.to_state is state]

    def states(self) -> dict[str, str]:
        return {instance.id: instance.state for instance in self.stores.instances.living()}

    def on_record(self, name: str, of: Wanted, *events: EventKind, fleet_name: str = "f") -> Instance:
        """An instance of an earlier control plane, without nodes."""
        instances = PostgresInstances(self.database)
        new = Instance(name, of.template.id, of.zone, of.market, InstanceState.REQUESTED, (), fleet=fleet_name)
        instances.request(new, of.template, of.plan_id, START)
        for kind in events:
            instances.apply(name, Event(kind, "earlier"), START)
        return instances.load(name)


UP = (EventKind.PROVISION, EventKind.NODES_UP, EventKind.AGENTS_UP, EventKind.LOADED)


def test_an_instance_for_which_nothing_can_be_rented_is_not_launched_again_at_once(database: Database) -> None:
    rounds: list[int] = []

    async def scenario(world: World, keeper: FleetKeeper) -> None:
        for failures in (1, 2):
            await world.until(lambda n=failures: len(world.reasons(InstanceState.FAILED)) == n)
            rounds.append(world.told.rounds)

    world = World(database, stock=0)
    world.play(scenario)
    assert all("no offer is left" in reason for reason in world.reasons(InstanceState.FAILED))
    assert rounds[1] - rounds[0] > 3


def test_every_step_is_said_whoever_takes_it(database: Database) -> None:
    async def scenario(world: World, keeper: FleetKeeper) -> None:
        await world.until(lambda: world.reasons(InstanceState.BOOTSTRAPPING))
        (lost, *_) = sorted(keeper.nodes)
        world.cloud.preempt(lost)
        await world.until(lambda: world.reasons(InstanceState.TERMINATED))

    world = World(database)
    world.play(scenario)
    first = world.steps[0].instance_id
    own = [(step.from_state, step.to_state) for step in world.steps if step.instance_id == first]
    states = ["requested", "provisioning", "bootstrapping", "failed", "terminating", "terminated"]
    assert own == list(pairwise(states))
    assert "does not list" in world.reasons(InstanceState.FAILED)[0]


def test_the_end_gives_everything_back_and_takes_it_off_the_record(database: Database) -> None:
    async def scenario(world: World, keeper: FleetKeeper) -> None:
        await world.until(lambda: world.reasons(InstanceState.BOOTSTRAPPING))

    world = World(database)
    world.play(scenario)
    assert world.states() == {}
    assert world.cloud.list({}, START) == ()


def test_what_an_earlier_run_went_through_is_no_news(database: Database) -> None:
    world = World(database, stock=0)
    old = world.on_record("i0", wish(), *UP)

    async def scenario(world: World, keeper: FleetKeeper) -> None:
        assert keeper.ready == {old.id}
        await world.until(lambda: world.told.rounds > 3)
        assert "earlier" not in {step.reason for step in world.steps}

    world.play(scenario)


@pytest.mark.parametrize("known", [True, False], ids=["its plan is kept", "its plan is gone"])
def test_an_instance_of_a_model_that_is_not_served_any_more_is_drained(database: Database, known: bool) -> None:
    gone = Wanted("plan-0", template((3, 3)), "a model of old", "whole", ZONE, Market.ON_DEMAND, 1, 1.0)
    world = World(database, stock=0, earlier=(gone,) if known else ())
    world.on_record("i0", gone, *UP)

    async def scenario(world: World, keeper: FleetKeeper) -> None:
        assert "i0" not in keeper.ready
        await world.until(lambda: any(step.instance_id == "i0" for step in world.steps))

    world.play(scenario)
    own = [step.to_state for step in world.steps if step.instance_id == "i0"]
    assert own[0] in (InstanceState.DRAINING, InstanceState.FAILED)
    assert own[-1] is InstanceState.TERMINATED
    assert world.published[-1] == []


def test_a_table_that_cannot_be_written_is_written_later(database: Database) -> None:
    full = [OSError(28, "No space left on device")] * 2

    class Full(World):
        def publish(self, ready: Ready) -> None:
            if full:
                raise full.pop()
            super().publish(ready)

    async def scenario(world: World, keeper: FleetKeeper) -> None:
        await world.until(lambda: world.published)

    Full(database).play(scenario)


def test_another_fleet_of_the_same_cloud_is_ended_and_those_of_other_clouds_are_not(database: Database) -> None:
    world = World(database)
    elsewhere = Wanted("p", template(), "chat", "whole", "aws/zone", Market.ON_DEMAND, 1, 1.0)
    world.on_record("i-own", wish(), *UP)
    world.on_record("i-ready", wish(), *UP, fleet_name="g")
    world.on_record("i-new", wish(), fleet_name="g")
    world.on_record("i-elsewhere", elsewhere, *UP, fleet_name="h")
    assert end_other_fleets("fake", "f", world.stores) == {}
    assert world.states() == {"i-own": "ready", "i-elsewhere": "ready"}
    last = world.stores.instances.history("i-ready")[-2]
    assert (last.to_state, last.reason) == (InstanceState.TERMINATING, "fleet f takes its place")
