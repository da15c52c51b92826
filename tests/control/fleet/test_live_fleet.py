"""A fleet of real processes through what may happen to it, seen by a real client."""

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from openai import OpenAI
from tokenizers import Tokenizer
from transformers import PreTrainedModel

from control.access.role import Role
from control.access.secret import Secret
from control.db.api_tokens import PostgresApiTokens
from control.db.database import Database
from control.fleet.live_instances import instance_views
from control.gateway.published import read_published
from control.lifecycle.state import InstanceState
from templates_lib.values.plan import PlannedInstance
from tests.agents.engines.tiny_models import NEAR_TIE, reference, save_model
from tests.control.db.processes import lives
from tests.control.fleet.fleets import MARKET, ZONE, planned
from tests.control.fleet.live import PATIENCE_S, ControlPlane, Place, a_plan
from tests.control.gateway.world import World, byte_tokenizer
from tests.control.lifecycle.worlds import START
from tests.templates_lib.units import executor, unit_template

KV_BLOCKS = 1000
"""16 MiB in a node of 4 layers: more than its 10 MiB; half of them fit."""
PROMPT, TOKENS = "Hello", 12


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.stop()


@pytest.fixture
def place(database: Database, world: World, tmp_path: Path) -> Iterator[Place]:
    made = Place(database, tmp_path, tmp_path / "weights", byte_tokenizer(tmp_path / "tokenizer"), world.keys.public)
    yield made
    made.give_back()


class Client:
    def __init__(self, world: World, key: Secret) -> None:
        self._client = OpenAI(base_url=f"{world.url}/v1", api_key=key.reveal(), max_retries=5, timeout=240)

    async def complete(self, model: str = "chat") -> str:
        """The greedy continuation of PROMPT, by way of a stream."""

        def ask() -> str:
            stream = self._client.completions.create(
                model=model, prompt=PROMPT, max_tokens=TOKENS, temperature=0, stream=True
            )
            return "".join(chunk.choices[0].text for chunk in stream)

        return await asyncio.to_thread(ask)


def continuation(model: PreTrainedModel, tokenizer: Path) -> str:
    """What transformers says follows PROMPT."""
    reader = Tokenizer.from_file(str(tokenizer / "tokenizer.json"))
    ids, gaps = reference(model, reader.encode(PROMPT).ids, TOKENS)
    assert min(gaps) > NEAR_TIE
    return reader.decode(ids)


def process_of(place: Place, instance: str, module: str) -> int:
    """Pid of a process of an instance."""
    pids = (pid for pid, runs in place.pids().items() if runs == module)
    return next(pid for pid in pids if f"-{instance}-" in " ".join(psutil.Process(pid).cmdline()))


def test_a_fleet_is_served_mended_adopted_replaced_and_ended(place: Place, world: World, database: Database) -> None:
    _, key = PostgresApiTokens(database).create("client", Role.CLIENT, START)
    expected = continuation(save_model("llama", place.weights), place.tokenizer)
    first_plan = a_plan("plan-1", planned(1, layers=(4, 2), kv_blocks=KV_BLOCKS))
    second_plan = a_plan("plan-2", planned(1, layers=(6,), kv_blocks=24))

    async def scenario() -> None:
        one = ControlPlane(place, first_plan)
        await one.start()

        # Out of memory: it comes back with half of the KV blocks.
        instance = await one.until_ready()
        reasons = one.reasons(InstanceState.FAILED)
        assert ["out of memory" in reason for reason in reasons] == [True], reasons
        said = one.board.scheduler(instance)
        assert said is not None
        assert said.status is not None
        assert said.status.kv_blocks == KV_BLOCKS // 2
        await one.until(place.table.exists)
        await asyncio.to_thread(world.start_gateway)
        client = Client(world, key)
        await asyncio.to_thread(world.wait_for, f'medley_gateway_instance_up{{instance="{instance}"}}', 1.0)
        assert await client.complete() == expected

        # A stage is killed: its instance fails with the cause, and another takes its place.
        scheduler, victim = (process_of(place, instance, module) for module in ("agents.scheduler", "agents.stage"))
        os.kill(scheduler, signal.SIGSTOP)  # which may tell of it sooner than its node does
        os.kill(victim, signal.SIGKILL)
        await one.until(lambda: len(one.reasons(InstanceState.FAILED)) > len(reasons))
        os.kill(scheduler, signal.SIGCONT)
        second = await one.until_ready(but=instance)
        assert "stage was ended by SIGKILL" in one.reasons(InstanceState.FAILED)[-1]
        assert await client.complete() == expected

        # The control plane dies: all is served without it, and the next one adopts what runs.
        running = place.pids()
        await one.kill()
        assert await client.complete() == expected
        two = ControlPlane(place, first_plan)
        await two.start()
        assert two.keeper.ready == {second}
        await two.until(lambda: two.board.scheduler(second))
        assert place.pids() == running
        assert [step for step in two.steps if step.instance_id == second] == []

        # The next one has another plan: what is surplus is drained, and what is wanted takes its place.
        await two.kill()
        three = ControlPlane(place, second_plan, (first_plan,))
        await three.start()
        third = await three.until_ready()
        assert third != second
        await three.until(lambda: [v.id for v in instance_views(database)] == [third])
        lived = ["draining", "terminating", "terminated"]
        await three.until(lambda: [s.to_state for s in three.steps if s.instance_id == second] == lived)
        assert "no request is left" in three.reasons(InstanceState.TERMINATING)
        await asyncio.to_thread(world.wait_for, f'medley_gateway_instance_up{{instance="{third}"}}', 1.0)
        assert await client.complete() == expected

        left_running = place.pids()
        assert await three.end() == {}
        assert three.reasons(InstanceState.TERMINATING)[-1] == "no request is left"
        assert not any(lives(pid) for pid in left_running)
        assert instance_views(database) == []
        assert place.cloud().list({}, START) == ()

    asyncio.run(scenario())


def test_two_models_share_a_node_and_one_outlives_the_death_of_the_other(
    place: Place, world: World, database: Database
) -> None:
    _, key = PostgresApiTokens(database).create("client", Role.CLIENT, START)
    of = unit_template(executor("a", component="chat"), executor("b", component="other"))
    units = {"chat/aggregated": 2.0, "other/aggregated": 2.0}
    unit = PlannedInstance(
        of.id, "both", "aggregated", ZONE, MARKET, 1, 0, of.nodes, units, 0.02, of.placement, of.software
    )
    save_model("llama", place.weights)
    byte_tokenizer(place.tokenizer)
    echoed = (PROMPT * TOKENS)[:TOKENS]

    async def scenario() -> None:
        plane = ControlPlane(
            place, a_plan("plan-1", unit), models={name: place.text_model(name) for name in ("chat", "other")}
        )
        await plane.start()
        instance = await plane.until_ready()
        members = {f"{instance}/a", f"{instance}/b"}
        await plane.until(lambda: set(read_published(place.table).addresses) == members)
        await asyncio.to_thread(world.start_gateway)
        client = Client(world, key)
        for name in "ab":
            await asyncio.to_thread(world.wait_for, f'medley_gateway_instance_up{{instance="{instance}/{name}"}}', 1.0)
        assert [await client.complete(model) for model in ("chat", "other")] == [echoed, echoed]

        before, was = place.pids(), read_published(place.table).addresses[f"{instance}/b"]
        (victim,) = (pid for pid in before if "/b.json" in " ".join(psutil.Process(pid).cmdline()))
        os.kill(victim, signal.SIGKILL)
        async with asyncio.timeout(PATIENCE_S):
            while read_published(place.table).addresses[f"{instance}/b"] == was:
                assert await client.complete("chat") == echoed
        assert await client.complete("other") == echoed
        assert await client.complete("chat") == echoed
        assert {pid: module for pid, module in before.items() if pid != victim}.items() <= place.pids().items()
        assert plane.keeper.ready == {instance}
        assert plane.reasons(InstanceState.FAILED) == []
        await plane.until(lambda: [each.state for each in instance_views(database)[0].executors] == ["ready", "ready"])
        (view,) = instance_views(database)
        assert [(each.id, each.component, each.engine) for each in view.executors] == [
            ("a", "chat", "echo"),
            ("b", "other", "echo"),
        ]

        assert await plane.end() == {}
        assert place.pids() == {}
        assert instance_views(database) == []

    asyncio.run(scenario())
