"""A fleet on the local cloud whose only node is a shared unit: two models, one KV cache, turns at the processors. One
of them gets blocks that the other leaves, and is killed under load: the other's answers are whole, it comes back."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import torch
from openai import OpenAI

from control.access.role import Role
from control.cloud.local.kind import LocalKind
from control.db.api_tokens import PostgresApiTokens
from control.db.database import Database
from templates_lib.values.placement import (
    UNIT,
    UNIT_VERSION,
    Executor,
    Placement,
    Stage,
    StageNodes,
    UnitPlacement,
)
from templates_lib.values.plan import Flow, PlannedInstance
from templates_lib.values.template import ServingTemplate, Software, template_id
from tests.agents.engines.tiny_models import LAYERS, assert_same, prompt_of, reference, save_model
from tests.agents.hand_off.fleet import Stream, id_tokenizer
from tests.chaos.victims import kill, of_nodes
from tests.control.db.processes import lives
from tests.control.fleet.fleets import MARKET, ZONE, plan_of
from tests.control.fleet.live import PATIENCE_S, ControlPlane, Place
from tests.control.gateway.world import World
from tests.control.lifecycle.worlds import START

pytestmark = pytest.mark.slow

CONFIG = "small:1/n10"
MODELS = {"chat": "qwen3", "code": "llama"}
"""Name → family. Their heads are alike, so that a block of the pool holds 128 tokens of either."""
POOL_BYTES = 4 << 20
STREAMS, TOKENS = 5, 60


def unit() -> PlannedInstance:
    executors = []
    for number, name in enumerate(MODELS):
        nodes = StageNodes(CONFIG, 1, 1.0, 1, 1, 1, 1, 4, 16, 300)
        executors.append(
            Executor(f"m{number}", name, "torch", "fp32", (Stage(0, LAYERS, True, True, (nodes,)),), ((0,),))
        )
    placement = Placement(UNIT, UNIT_VERSION, msgspec.to_builtins(UnitPlacement(tuple(executors), POOL_BYTES)))
    software = Software("+".join(MODELS), "r1", "", "torch", "in-turn-v1", "+".join(MODELS))
    parts = (software.model, "r1", "", "torch", "in-turn-v1", {CONFIG: 1}, placement, software.served_as)
    made = ServingTemplate(template_id(*parts), *parts)
    units = {"chat/aggregated": 300.0, "code/aggregated": 100.0}  # so many that gateways admit all that come
    at = made.id, software.served_as, "aggregated", ZONE, MARKET
    return PlannedInstance(*at, 1, 0, made.nodes, units, 0.02, made.placement, made.software)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.stop()


@pytest.fixture
def place(database: Database, world: World, tmp_path: Path) -> Iterator[Place]:
    ids = tmp_path / "ids"
    id_tokenizer(ids)
    weights = {name: tmp_path / f"weights-{name}" for name in MODELS}
    kinds = (LocalKind("small", 2.0, 2048, 2),)
    made = Place(database, tmp_path, weights["chat"], ids, world.keys.public, kinds=kinds, weights_of=weights)
    yield made
    made.give_back()


def test_a_gateway_serves_both_models_of_a_unit_and_one_that_dies_harms_none_but_itself(
    place: Place, world: World, database: Database
) -> None:
    torch.set_num_threads(1)
    _, key = PostgresApiTokens(database).create("client", Role.CLIENT, START)
    models = {name: save_model(family, place.weights_of[name]) for name, family in MODELS.items()}
    prompts = [prompt_of(9 + 17 * n, n) for n in range(STREAMS)]
    expected = {name: [reference(model, each, TOKENS) for each in prompts] for name, model in models.items()}

    def flood(name: str) -> None:
        """With requests of which a few fill the blocks that it has at first."""
        client = OpenAI(base_url=f"{world.url}/v1", api_key=key.reveal(), max_retries=0, timeout=600)
        for stream in [Stream(client, prompt_of(140, n), TOKENS, {"model": name}) for n in range(8)]:
            assert len(stream.end()) == TOKENS

    def begin(*names: str) -> dict[str, list[Stream]]:
        client = OpenAI(base_url=f"{world.url}/v1", api_key=key.reveal(), max_retries=0, timeout=600)
        begun = {name: [Stream(client, each, TOKENS, {"model": name}) for each in prompts] for name in names}
        return {name: [stream.wait(1) for stream in streams] for name, streams in begun.items()}

    def finish(streams: dict[str, list[Stream]]) -> None:
        for name, own in streams.items():
            for stream, tokens in zip(own, expected[name], strict=True):
                assert_same(stream.end(), tokens)

    async def scenario() -> None:
        flows = [Flow(f"{name}/aggregated", (ZONE,), 1.0, 0.0) for name in MODELS]
        served = {name: place.text_model(name) for name in MODELS}
        plane = ControlPlane(place, plan_of((unit(),), [], flows, id="plan-1"), models=served)
        await plane.start()
        instance = await plane.until_ready()
        members = {name: f"{instance}/m{number}" for number, name in enumerate(MODELS)}
        await plane.until(place.table.exists)
        await asyncio.to_thread(world.start_gateway)

        async def see(name: str) -> None:
            up = f'medley_gateway_instance_up{{instance="{members[name]}"}}'
            await asyncio.to_thread(world.wait_for, up, 1.0, timeout_s=240)

        for name in MODELS:
            await see(name)
        await asyncio.to_thread(lambda: finish(begin(*MODELS)))

        def quota(name: str) -> float:
            """Blocks that a member has, once none of its requests holds any."""
            for what in ("running", "waiting"):
                world.wait_for(f'medley_gateway_instance_{what}{{instance="{members[name]}"}}', 0.0)
            return world.metrics()[f'medley_gateway_instance_kv_blocks_free{{instance="{members[name]}"}}']

        first = await asyncio.to_thread(quota, "code")
        assert first < await asyncio.to_thread(quota, "chat"), "a third of the requests is planned of it"
        async with asyncio.timeout(PATIENCE_S):
            while await asyncio.to_thread(quota, "code") <= first:
                await asyncio.to_thread(flood, "code")

        node = plane.stores.nodes.of_instance(instance)[0]
        before = {name: plane.board.scheduler(instance, f"m{n}") for n, name in enumerate(MODELS)}
        streams = await asyncio.to_thread(begin, *MODELS)
        stages = [victim for victim in of_nodes([node.name]) if victim.program == "agents.stage"]
        killed = [victim for victim in stages if str(place.weights_of["code"]) in victim.process.cmdline()]
        assert (len(stages), len(killed)) == (2, 1)
        kill(killed)
        await asyncio.to_thread(finish, {"chat": streams["chat"]})

        def is_back() -> bool:
            now = plane.board.scheduler(instance, "m1")
            return now is not None and now.status is not None and now.public_key != before["code"].public_key

        await plane.until(is_back)
        await see("code")
        await asyncio.to_thread(lambda: finish(begin(*MODELS)))
        assert plane.keeper.ready == {instance}
        still = plane.board.scheduler(instance, "m0")
        assert still is not None
        assert still.public_key == before["chat"].public_key, "the other was not restarted"

        running = of_nodes([node.name])
        assert await plane.end() == {}
        assert not any(lives(victim.process.pid) for victim in running)

    asyncio.run(scenario())
