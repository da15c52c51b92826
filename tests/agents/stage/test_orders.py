"""Room for a KV cache that comes is made at once where nothing that was told before needs it."""

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest
import torch

from agents.channels.address import Address
from agents.channels.keys import KeyPair
from agents.engines.layer_range import LayerRange
from agents.engines.torch_engine.engine import load_torch_engine
from agents.messages.to_stage import FreeRuns, ReserveRun, StageEntry, StageStep
from agents.stage.orders import Order, Orders
from agents.stage.worker import StageWorker, WorkerSettings
from agents.weights.source import open_checkpoint
from tests.agents.engines.pipelines import DEVICE
from tests.agents.engines.tiny_models import LAYERS

BLOCK_TOKENS = 16
NOBODY = -1


def step(*held: tuple[int, int]) -> StageStep:
    """Of (position, tokens)."""
    return StageStep(1, tuple(StageEntry(run, at, tokens, NOBODY, NOBODY) for run, (at, tokens) in enumerate(held)))


@pytest.mark.parametrize(
    ("told", "free_blocks", "expected"),
    [
        ((), 3, True),
        ((), 2, False),
        ((FreeRuns((7, 8)),), 3, True),  # not counted on before they are free
        ((FreeRuns((7, 8)),), 2, False),
        ((step((15, 1), (31, 1)),), 3, True),  # in blocks that they have
        ((step((16, 1)),), 3, False),
        ((step((16, 1)),), 4, True),
        ((step((0, 20), (16, 17)), step((33, 1))), 6, False),
        ((step((0, 20), (16, 17)), step((33, 1))), 7, True),
        ((ReserveRun(8, 1),), 100, False),  # runs are reserved in rising order
    ],
)
def test_only_beside_what_was_told_before(told: tuple[Order, ...], free_blocks: int, expected: bool) -> None:
    orders = Orders(BLOCK_TOKENS)
    for order in told:
        orders.put(order)
    assert orders.has_room(ReserveRun(9, 33), lambda: free_blocks) is expected
    assert [orders.get() for _ in told] == list(told)
    assert orders.has_room(ReserveRun(9, 33), lambda: free_blocks) is expected, "they are under way"
    for _ in told:
        orders.done()
    assert orders.has_room(ReserveRun(9, 33), lambda: 3)
    assert not orders.has_room(ReserveRun(9, 33), lambda: 2)


def test_a_step_that_takes_its_blocks_while_room_is_asked_for_counts() -> None:
    orders = Orders(BLOCK_TOKENS)
    orders.put(step((0, 8 * BLOCK_TOKENS)))
    free_blocks = 10

    def takes_its_blocks() -> int:
        nonlocal free_blocks
        if free_blocks == 10:
            free_blocks -= 8
            orders.done()
        return free_blocks

    assert not orders.has_room(ReserveRun(9, 3 * BLOCK_TOKENS), takes_its_blocks)


def test_a_worker_makes_room_before_a_step_that_was_told_before(checkpoint: Path) -> None:
    async def scenario() -> None:
        whole = LayerRange.whole(LAYERS)
        engine = load_torch_engine(open_checkpoint(checkpoint), whole, 8, torch.float32, DEVICE)
        nobody = Address("tcp://127.0.0.1:1", KeyPair.generate().public)
        worker = StageWorker(engine, nobody, KeyPair.generate(), WorkerSettings("127.0.0.1", 60.0))
        running = asyncio.create_task(worker.run())
        worker.received(step((0, 5 * BLOCK_TOKENS)))
        worker.received(ReserveRun(1, 2 * BLOCK_TOKENS))
        assert engine.free_kv_blocks == 6
        worker.received(ReserveRun(2, 2 * BLOCK_TOKENS))  # 1 beside the step's 5
        worker.received(ReserveRun(3, 1))
        assert engine.free_kv_blocks == 6
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    asyncio.run(scenario())
