"""A fleet on the local cloud whose nodes are replicas and pipelines inside. One of them dies under load with all of its
workers, and another takes its place."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from control.access.role import Role
from control.cloud.local.kind import LocalKind
from control.db.api_tokens import PostgresApiTokens
from control.db.database import Database
from control.fleet.live_instances import instance_views
from tests.agents.hand_off.fleet import id_tokenizer
from tests.chaos.victims import Victim, kill, of_nodes
from tests.control.db.processes import lives
from tests.control.fleet.fleets import planned
from tests.control.fleet.live import ControlPlane, Place, a_plan
from tests.control.gateway.world import World
from tests.control.lifecycle.worlds import START
from tests.e2e.test_mixed_engines import Client

pytestmark = pytest.mark.slow

SPLITS = ((1, 2, 2, 1), (2, 1, 1, 1))
"""(tp, dp, pp, ep): two replicas of two parts each, then one worker cut over two devices."""
PLAN = a_plan(
    "plan-1",
    planned(layers=(4, 2), kv_blocks=100, splits=SPLITS),
    planned(layers=(6,), kv_blocks=100),
)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.stop()


@pytest.fixture
def place(database: Database, world: World, tmp_path: Path) -> Iterator[Place]:
    ids = tmp_path / "ids"
    id_tokenizer(ids)
    kinds = (LocalKind("small", 2.0, 2048, 4),)
    made = Place(database, tmp_path, tmp_path / "weights", ids, world.keys.public, kinds=kinds)
    yield made
    made.give_back()


def test_a_node_of_four_workers_dies_with_all_of_them_and_every_answer_is_whole(
    place: Place, world: World, database: Database
) -> None:
    torch.set_num_threads(1)
    _, key = PostgresApiTokens(database).create("client", Role.CLIENT, START)
    client = Client(world, key, place.weights)

    async def scenario() -> None:
        plane = ControlPlane(place, PLAN)
        await plane.start()

        async def both(*, but: str = "") -> dict[int, str]:
            """Stages → instance, once all are ready."""
            await plane.until(lambda: len(plane.keeper.ready - {but}) == len(PLAN.instances))
            return {len(plane.stores.nodes.of_instance(instance)): instance for instance in plane.keeper.ready}

        def workers(instance: str) -> list[list[Victim]]:
            """Of each node."""
            names = [node.name for _, node in sorted(plane.stores.nodes.of_instance(instance).items())]
            return [[victim for victim in of_nodes([name]) if victim.program == "agents.stage"] for name in names]

        first = await both()
        await plane.until(place.table.exists)
        await asyncio.to_thread(world.start_gateway)
        for instance in first.values():
            await client.see(instance)
        assert [len(of_node) for of_node in workers(first[2])] == [4, 1]
        numbers = Counter(command[command.index("--worker") + 1] for command in _commands(workers(first[2])[0]))
        assert numbers == {"0": 1, "1": 1, "2": 1, "3": 1}
        client.finish(await asyncio.to_thread(client.begin))
        view = next(view for view in instance_views(database) if view.id == first[2])
        assert [(node.first_layer, node.last_layer) for node in view.nodes] == [(0, 3), (4, 5)]

        streams = await asyncio.to_thread(client.begin)
        node = plane.stores.nodes.of_instance(first[2])[0]
        killed = of_nodes([node.name])
        kill(killed)
        await asyncio.to_thread(client.finish, streams)
        assert world.metrics()['medley_gateway_resumptions_total{cause="lost",model="chat"}'] > 0
        assert not any(lives(victim.process.pid) for victim in killed)

        second = await both(but=first[2])
        assert second[1] == first[1]
        await client.see(second[2])
        await asyncio.to_thread(lambda: client.finish(client.begin()))

        running = of_nodes(node.name for node in place.cloud().list({}, START))
        assert await plane.end() == {}
        assert not any(lives(victim.process.pid) for victim in running)
        assert place.cloud().list({}, START) == ()

    asyncio.run(scenario())


def _commands(victims: list[Victim]) -> list[list[str]]:
    return [victim.process.cmdline() for victim in victims]
