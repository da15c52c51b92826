"""An executor in a process of its own, with the sidecar of its node and a gateway's end: units in, rows out."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch

from agents.channels.address import Address
from agents.channels.dialer import Dialer
from agents.channels.keys import KeyPair
from agents.engines.components.unit import EncoderUnit
from agents.engines.torch_components.engine import load_torch_encoder
from agents.messages.component_work import Encode, Encoded, TensorAt
from agents.messages.to_gateway import Failed, Failure, SchedulerState, Status, ToGateway
from agents.messages.to_scheduler import Cancel, Drain
from agents.scheduler.instance_file import InstanceFile
from agents.scheduler.layout import NodeLimits, PipelineLayout
from agents.weights.source import open_checkpoint
from tests.agents.channels.channel_ends import Seen
from tests.agents.engines.components.tiny_graphs import save_graph
from tests.agents.engines.pipelines import DEVICE
from tests.agents.tensors.nodes import PAGE, SETTINGS, Node, run_node, wait_until

PATIENCE_S = 240.0
MODEL, COMPONENT = "pictures", "vision"


class Gateway:
    """A gateway's end of the channel to the executor."""

    def __init__(self, where: dict[str, str], keys: KeyPair) -> None:
        self.seen = Seen()
        address = Address(where["endpoint"], where["public_key"])
        self._dialer: Dialer[ToGateway] = Dialer(address, keys, "gateway", ToGateway, self.seen)

    async def __aenter__(self) -> "Gateway":
        await self._dialer.wait_up(PATIENCE_S)
        await self.until(lambda: self.state() is SchedulerState.READY)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._dialer.close()

    def send(self, *messages: msgspec.Struct) -> None:
        for message in messages:
            self._dialer.send(message)

    def state(self) -> SchedulerState | None:
        said = [each for each in self.seen.messages if isinstance(each, Status)]
        return said[-1].state if said else None

    def answers(self) -> dict[int, Encoded | Failed]:
        return {each.attempt: each for each in self.seen.messages if isinstance(each, Encoded | Failed)}

    async def until(self, condition: Callable[[], object]) -> None:
        await self.seen.until(condition, PATIENCE_S)

    async def answer(self, attempt: int) -> Encoded | Failed:
        await self.until(lambda: attempt in self.answers())
        return self.answers()[attempt]


class Place:
    """A node with its sidecar, a checkpoint, and the executor that runs there."""

    def __init__(self, folder: Path, node: Node) -> None:
        self.node, self.gateway = node, KeyPair.generate()
        save_graph("dinov2", folder / "weights")
        self.checkpoint = open_checkpoint(folder / "weights")
        KeyPair.generate().save(folder / "key")
        limits = NodeLimits("node", 1.0, 4, 64, 64)
        layout = PipelineLayout(MODEL, ((limits,),), 16, 64, 96)
        path = folder / "0.vision.json"
        path.write_bytes(msgspec.json.encode(InstanceFile(layout, {self.gateway.public: "gateway"}, {})))
        given = ("--instance", path, "--key", folder / "key", "--checkpoint", folder / "weights")
        given += ("--dtype", "float32", "--device", DEVICE)
        of_part = ("--components", COMPONENT, "--together", f"{COMPONENT}/image=4", "--sidecar", node.name)
        command = [sys.executable, "-m", "agents.executor", *map(str, given), *of_part]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)
        assert self.process.stdout is not None
        self.where = json.loads(self.process.stdout.readline())

    def rows(self, values: np.ndarray) -> np.ndarray:
        """As the same engine makes them in one process."""
        engine = load_torch_encoder(self.checkpoint, COMPONENT, torch.float32, DEVICE)
        return engine.encode([EncoderUnit("alone", values)])[0]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with run_node(SETTINGS) as node:
        made = Place(tmp_path_factory.mktemp("executor"), node)
        yield made
        made.process.kill()
        made.process.wait()


def picture(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((3, 28, 28)).astype(np.float32)


def asked(attempt: int, unit: str, **changes: object) -> Encode:
    message = Encode(attempt, f"r{attempt}", MODEL, COMPONENT, TensorAt(unit), f"rows-{attempt}", 60.0)
    return msgspec.structs.replace(message, **changes)


def test_rows_of_units_that_come_together_are_those_of_each_alone(place: Place) -> None:
    async def scenario() -> None:
        tensors = place.node.client("front")
        async with Gateway(place.where, place.gateway) as gateway:
            pictures = [picture(seed) for seed in range(6)]
            for number, values in enumerate(pictures):
                gateway.send(asked(number, f"unit-{number}"))
                tensors.put(f"unit-{number}", values)
            for number, values in enumerate(pictures):
                answer = await gateway.answer(number)
                assert isinstance(answer, Encoded), answer
                rows = tensors.take(f"rows-{number}", answer.place).array
                expected = place.rows(values)
                assert rows.shape == expected.shape == (answer.rows, answer.row_width)
                np.testing.assert_allclose(rows, expected, atol=1e-5)

    asyncio.run(scenario())


def test_rows_that_are_kept_are_not_made_again_and_need_no_values(place: Place) -> None:
    async def scenario() -> None:
        tensors, key = place.node.client("front"), "picture-of-some-hash"
        async with Gateway(place.where, place.gateway) as gateway:
            tensors.put("once", picture(9))
            gateway.send(asked(10, "once", key=key))
            first = await gateway.answer(10)
            assert isinstance(first, Encoded), first
            made = np.array(tensors.take("rows-10", first.place).array)
            gateway.send(asked(11, "never-put", key=key))
            again = await gateway.answer(11)
            assert isinstance(again, Encoded), again
            np.testing.assert_array_equal(tensors.take("rows-11", again.place).array, made)

    asyncio.run(scenario())


def test_what_cannot_be_computed_is_refused_with_the_next_step(place: Place) -> None:
    async def scenario() -> None:
        tensors = place.node.client("front")
        async with Gateway(place.where, place.gateway) as gateway:
            tensors.put("flat", np.zeros((3, 28), np.float32))
            tensors.put("bytes", np.zeros((3, 28, 28), np.uint8))
            tensors.put("endless", np.full((3, 28, 28), np.inf, np.float32))
            tensors.put("beside", picture(2))
            gateway.send(
                asked(20, "flat"),
                asked(21, "bytes"),
                asked(22, "unit", component="hearing"),
                asked(23, "unit", model="another"),
                asked(24, "never-put", timeout_s=0.1),
                asked(27, "endless"),
                asked(28, "beside"),
            )
            found = {attempt: await gateway.answer(attempt) for attempt in (*range(20, 25), 27)}
            assert isinstance(await gateway.answer(28), Encoded)
            failures = {attempt: each.failure for attempt, each in found.items() if isinstance(each, Failed)}
            assert failures.keys() == found.keys()
            assert [failures[each] for each in (20, 21, 27)] == [Failure.UNSUPPORTED] * 3
            assert [failures[each] for each in (22, 23)] == [Failure.UNKNOWN_MODEL] * 2
            assert failures[24] in (Failure.DEADLINE, Failure.HAND_OFF)
            gateway.send(asked(25, "late-put"), Cancel(25))
            tensors.put("after", picture(1))
            gateway.send(asked(26, "after"))
            assert isinstance(await gateway.answer(26), Encoded)
            assert 25 not in gateway.answers()

    asyncio.run(scenario())


def test_rows_that_nobody_takes_stop_no_other_unit(tmp_path: Path) -> None:
    async def scenario(place: Place) -> None:
        async with Gateway(place.where, place.gateway) as gateway:
            for number in range(5):
                place.node.client(f"front-{number}").put(f"unit-{number}", picture(number))
            place.node.client("front-endless").put("endless", np.full((3, 28, 28), np.inf, np.float32))
            for number in range(3):  # which fill what it may have
                gateway.send(asked(number, f"unit-{number}", keep_s=3600.0))
                assert isinstance(await gateway.answer(number), Encoded)
            gateway.send(asked(3, "unit-3", keep_s=3600.0, timeout_s=3600.0))
            gateway.send(asked(4, "unit-4", keep_s=3600.0, timeout_s=2.0))
            gateway.send(asked(5, "endless"))
            for number, expected in ((5, Failure.UNSUPPORTED), (4, Failure.OVERLOADED)):
                failed = await gateway.answer(number)
                assert isinstance(failed, Failed)
                assert failed.failure is expected
            assert 3 not in gateway.answers()
            place.node.client("front").take("rows-0")
            assert isinstance(await gateway.answer(3), Encoded)

    with run_node(replace(SETTINGS, quota_bytes=3 * PAGE)) as node:
        place = Place(tmp_path, node)
        try:
            asyncio.run(scenario(place))
        finally:
            place.process.kill()
            place.process.wait()


def test_a_unit_that_was_cancelled_before_its_turn_is_not_waited_for(place: Place) -> None:
    async def scenario() -> None:
        async with Gateway(place.where, place.gateway) as gateway:
            # as many as are fetched at once
            gateway.send(*(asked(number, f"never-put-{number}", timeout_s=1.0) for number in range(100, 164)))
            gateway.send(asked(164, "never-put-164", timeout_s=3600.0), Cancel(164))
            place.node.client("front").put("behind", picture(3))
            gateway.send(asked(165, "behind"))
            assert isinstance(await gateway.answer(165), Encoded)
            with place.node.sidecar._desk.change() as book:
                assert "never-put-164" not in book._takes

    asyncio.run(scenario())


def test_a_unit_that_is_cancelled_waits_neither_for_its_values_nor_for_room(tmp_path: Path) -> None:
    def claims(node: Node) -> int:
        with node.sidecar._desk.change() as book:
            return len(book._claims._waiting)

    async def scenario(place: Place) -> None:
        async with Gateway(place.where, place.gateway) as gateway:

            def ask(number: int) -> None:
                place.node.client(f"front-{number}").put(f"unit-{number}", picture(number))
                gateway.send(asked(number, f"unit-{number}", keep_s=3600.0, timeout_s=3600.0))

            gateway.send(asked(1, "never-put", timeout_s=3600.0))
            await asyncio.to_thread(wait_until, lambda: place.node.waiting)
            gateway.send(Cancel(1))
            await asyncio.to_thread(wait_until, lambda: not place.node.waiting)
            for number in range(2, 5):
                ask(number)
                assert isinstance(await gateway.answer(number), Encoded)
            ask(5)  # which finds no room
            await asyncio.to_thread(wait_until, lambda: claims(place.node))
            gateway.send(Cancel(5))
            await asyncio.to_thread(wait_until, lambda: not claims(place.node))
            assert 5 not in gateway.answers()
            # Rows that were answered go, too, once nobody is to take them; those that are taken are a matter past.
            ask(6)
            await asyncio.to_thread(wait_until, lambda: claims(place.node))
            gateway.send(Cancel(2))
            assert isinstance(await gateway.answer(6), Encoded)
            place.node.client("front").take("rows-3")
            gateway.send(Cancel(3))
            ask(7)
            assert isinstance(await gateway.answer(7), Encoded)

    with run_node(replace(SETTINGS, quota_bytes=3 * PAGE)) as node:
        place = Place(tmp_path, node)
        try:
            asyncio.run(scenario(place))
        finally:
            place.process.kill()
            place.process.wait()


def test_it_drains_and_ends_when_it_is_told_to(tmp_path: Path) -> None:
    async def scenario(place: Place) -> None:
        async with Gateway(place.where, place.gateway) as gateway:
            gateway.send(Drain())
            await gateway.until(lambda: gateway.state() is SchedulerState.DRAINING)
            gateway.send(asked(1, "unit"))
            answer = await gateway.answer(1)
            assert isinstance(answer, Failed)
            assert answer.failure is Failure.DRAINING
        place.process.send_signal(signal.SIGTERM)
        assert place.process.wait(60) == 0

    with run_node(SETTINGS) as node:
        place = Place(tmp_path, node)
        try:
            asyncio.run(scenario(place))
        finally:
            place.process.kill()
            place.process.wait()
