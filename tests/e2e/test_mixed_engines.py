"""A fleet on the local cloud that serves one model with two engines: a node with all of it in vLLM, and a pipeline of
torch nodes. The node of vLLM dies under load, and another takes its place."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from openai import OpenAI

from control.access.role import Role
from control.access.secret import Secret
from control.cloud.local.kind import LocalKind
from control.db.api_tokens import PostgresApiTokens
from control.db.database import Database
from control.fleet.live_instances import instance_views
from tests.agents.engines.tiny_models import LAYERS, assert_same, prompt_of, reference, save_model
from tests.agents.hand_off.fleet import Stream, id_tokenizer
from tests.chaos.victims import Victim, kill, of_nodes
from tests.conftest import VLLM_PYTHON
from tests.control.db.processes import lives
from tests.control.fleet.fleets import planned
from tests.control.fleet.live import PATIENCE_S, ControlPlane, Place, a_plan
from tests.control.gateway.world import World
from tests.control.lifecycle.worlds import START

pytestmark = [pytest.mark.slow, pytest.mark.needs("vllm")]

SMALL = LocalKind("small", 2.0, 1024, 2)
LARGE = LocalKind("large", 2.0, 3072, 1)
"""vLLM takes a GiB beside weights and cache, and the node's other processes half of one."""
PLAN = a_plan(
    "plan-1",
    planned(layers=(4, 2), kv_blocks=100),
    planned(layers=(LAYERS,), kv_blocks=100, engine="vllm", config="large:1/n10"),
)
STREAMS = 6
TOKENS = 150
"""Of each answer: a node can die in the middle."""
SAID_S = 1.0
"""A scheduler says several times in that what it runs; it misses a worker after five."""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.stop()


@pytest.fixture
def place(database: Database, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setenv("MEDLEY_VLLM_PYTHON", str(VLLM_PYTHON))
    ids, kinds = tmp_path / "ids", (SMALL, LARGE)
    id_tokenizer(ids)
    made = Place(database, tmp_path, tmp_path / "weights", ids, world.keys.public, kinds=kinds, memory_mib={})
    yield made
    cloud = made.cloud()
    for node in cloud.list({}, START):
        cloud.terminate(node.name, START)


class Client:
    """Greedy streams, each with what transformers says it should be."""

    def __init__(self, world: World, key: Secret, weights: Path) -> None:
        self._world, self._key = world, key
        model = save_model("qwen3", weights)  # its heads have a size that vLLM has kernels for
        self._asked = [(prompt_of(9 + 7 * n, n), TOKENS) for n in range(STREAMS)]
        self._expected = [reference(model, *asked) for asked in self._asked]

    def begin(self) -> list[Stream]:
        """All of them, each with a token or more."""
        client = OpenAI(base_url=f"{self._world.url}/v1", api_key=self._key.reveal(), max_retries=0, timeout=600)
        return [stream.wait(1) for stream in [Stream(client, *a, {"model": "chat"}) for a in self._asked]]

    def amid(self, instance: str, victims: list[Victim]) -> list[Stream]:
        """Streams of which some are under way in `instance`, which computes nothing meanwhile."""
        workers = [victim.process for victim in victims if victim.program == "agents.vllm_engine"]
        running = f'medley_gateway_instance_running{{instance="{instance}"}}'
        give_up_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < give_up_s:
            streams = self.begin()
            for worker in workers:
                worker.suspend()
            time.sleep(SAID_S)
            if self._world.metrics().get(running):
                return streams
            for worker in workers:
                worker.resume()
            self.finish(streams)
        raise AssertionError(f"no stream was ever under way in {instance}")

    def finish(self, streams: list[Stream]) -> None:
        for stream, expected in zip(streams, self._expected, strict=True):
            assert_same(stream.end(), expected)

    async def see(self, instance: str) -> None:
        await asyncio.to_thread(self._world.wait_for, f'medley_gateway_instance_up{{instance="{instance}"}}', 1.0)


def test_a_node_of_vllm_dies_in_a_fleet_of_two_engines_and_every_answer_is_whole(
    place: Place, world: World, database: Database
) -> None:
    _, key = PostgresApiTokens(database).create("client", Role.CLIENT, START)
    client = Client(world, key, place.weights)

    async def scenario() -> None:
        plane = ControlPlane(place, PLAN)
        await plane.start()

        async def both(*, but: str = "") -> dict[str, str]:
            """Engine → instance, once all are ready."""
            await plane.until(lambda: len(plane.keeper.ready - {but}) == len(PLAN.instances))
            return {plane.stores.instances.template(i).engine: i for i in plane.keeper.ready}

        first = await both()
        assert set(first) == {"torch", "vllm"}
        await plane.until(place.table.exists)
        await asyncio.to_thread(world.start_gateway)
        for instance in first.values():
            await client.see(instance)
        client.finish(await asyncio.to_thread(client.begin))

        (node,) = plane.stores.nodes.of_instance(first["vllm"]).values()
        streams = await asyncio.to_thread(client.amid, first["vllm"], of_nodes([node.name]))
        kill(of_nodes([node.name]))
        await asyncio.to_thread(client.finish, streams)
        assert sum(value for name, value in world.metrics().items() if "resumptions_total" in name) > 0
        await asyncio.to_thread(lambda: client.finish(client.begin()))  # vLLM takes longer to load

        second = await both(but=first["vllm"])
        assert second["torch"] == first["torch"]
        await client.see(second["vllm"])
        await asyncio.to_thread(lambda: client.finish(client.begin()))

        running = of_nodes(node.name for node in place.cloud().list({}, START))
        assert {victim.program for victim in running} >= {
            "agents.node",
            "agents.scheduler",
            "agents.stage",
            "agents.vllm_engine",
        }
        assert await plane.end() == {}
        assert not any(lives(victim.process.pid) for victim in running)
        assert instance_views(database) == []
        assert place.cloud().list({}, START) == ()

    asyncio.run(scenario())
