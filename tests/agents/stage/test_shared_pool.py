"""Two models in real processes on one KV cache, one step at a time: the tokens are those of each alone."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.kv_pool.block_ledger import BlockLedger
from agents.kv_pool.member_shape import MemberShape
from agents.kv_pool.owner import PoolOwner
from agents.messages.to_gateway import Failed, Failure, Finished
from agents.messages.to_hub import OUT_OF_MEMORY
from agents.unit.core import UnitMemberShares
from agents.unit.running_unit import RunningUnit
from agents.weights.source import open_checkpoint
from policies.shared_units.block_quotas import BlockDemand
from templates_lib.values.speculation import Speculation
from tests.agents.engines.pipelines import Pipeline
from tests.agents.engines.tiny_models import LAYERS, prompt_of, save_model
from tests.agents.stage.instances import Gateway, Instance
from tests.agents.stage.questions import asked, expected
from tests.agents.tensors.nodes import wait_until

BLOCK_BYTES, UNITS = 1024, 2 * 2 * LAYERS
"""Layers x heads x sides."""
ROWS = {"qwen3": 128, "mistral": 64}
"""Bytes of a head of 32 and of 16 numbers in fp32: 8 tokens of one fill a block, and 16 of the other."""
LONGEST = 16
BLOCKS = UNITS * 2 * LONGEST
"""Each member has as many as its longest request needs, for good."""
TOKENS, PROMPT = 12, 30


@pytest.fixture
def unit() -> RunningUnit:
    member = UnitMemberShares(1.0, 1.0, BlockDemand(1.0, UNITS * 4.0, UNITS * LONGEST))
    return RunningUnit([member, member], BLOCKS, time.monotonic())


@pytest.fixture
def socket(unit: RunningUnit, short_tmp: Path) -> Iterator[Path]:
    shapes = [MemberShape(name, row, UNITS) for name, row in ROWS.items()]
    owner = PoolOwner(BlockLedger(unit.grants), BLOCKS, BLOCK_BYTES, short_tmp / "pool", unit, shapes)
    with contextlib.closing(owner):
        owner.start()
        yield short_tmp / "pool"


def test_two_models_answer_as_each_alone_and_one_that_is_killed_leaves_the_other_its_blocks_and_turns(
    checkpoint: Path, whole: Pipeline, tmp_path: Path, unit: RunningUnit, socket: Path
) -> None:
    mistral = tmp_path / "mistral"
    save_model("mistral", mistral)
    alone = (whole, Pipeline.load(open_checkpoint(mistral), [LAYERS]))
    requests = {n: (prompt_of(PROMPT + 7 * n, n), TOKENS) for n in range(5)}
    """More than a member's quota holds at once: some give up their blocks, and begin again."""
    answers = [{n: expected(model, *request) for n, request in requests.items()} for model in alone]

    async def scenario(members: list[Instance]) -> None:
        async with Gateway(members[0]) as first, Gateway(members[1]) as second:
            for each in (first, second):
                each.send(*(asked(n, *request) for n, request in requests.items()))
            for each, own in zip((first, second), answers, strict=True):
                await each.until(lambda each=each: each.ends().keys() >= requests.keys())
                assert [end for end in each.ends().values() if not isinstance(end, Finished)] == []
                assert {n: each.tokens(n) for n in requests} == own
            assert first.status().kv_blocks == LONGEST, "its quota, not the pool"
            for each in (first, second):
                each.send(*(asked(10 + n, *request) for n, request in requests.items()))
            await second.until(lambda: second.tokens(10))
            os.kill(members[1].workers["0.0"].pid, signal.SIGKILL)
            await first.until(lambda: first.ends().keys() >= {10 + n for n in requests})
            assert {n: first.tokens(10 + n) for n in requests} == answers[0]

    with both(tmp_path, socket, checkpoint, mistral) as members:
        asyncio.run(scenario(members))
        wait_until(lambda: unit.grants.held == (0, 0))


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "words"), [("hang", "hangs"), ("allocation", OUT_OF_MEMORY)])
def test_a_member_that_hangs_or_runs_out_of_memory_fails_its_own_requests_and_no_others(
    checkpoint: Path, whole: Pipeline, tmp_path: Path, unit: RunningUnit, socket: Path, fault: str, words: str
) -> None:
    mistral, broken = tmp_path / "mistral", tmp_path / "broken"
    save_model("mistral", mistral)
    requests = {n: (prompt_of(PROMPT + 7 * n, n), TOKENS) for n in range(5)}
    answers = {n: expected(whole, *request) for n, request in requests.items()}

    async def scenario(members: list[Instance]) -> None:
        async with Gateway(members[0]) as first, Gateway(members[1]) as second:
            second.send(asked(0, prompt_of(PROMPT), TOKENS))
            await second.until(second.ends)
            assert isinstance(second.ends()[0], Finished)
            broken.touch()
            second.send(asked(1, prompt_of(PROMPT), TOKENS))
            first.send(*(asked(n, *request) for n, request in requests.items()))
            await first.until(lambda: first.ends().keys() >= requests.keys())
            assert {n: first.tokens(n) for n in requests} == answers
            await second.until(lambda: 1 in second.ends())
            end = second.ends()[1]
            assert isinstance(end, Failed)
            assert (end.failure, words in end.reason) == (Failure.ENGINE, True)

    with both(tmp_path, socket, checkpoint, mistral, (fault, broken)) as members:
        asyncio.run(scenario(members))
        assert members[1].ended() == {"scheduler": 1, "0.0": 1}
        wait_until(lambda: unit.grants.held == (0, 0))


@contextlib.contextmanager
def both(
    folder: Path, socket: Path, first: Path, second: Path, fault: tuple[str, Path] | None = None
) -> Iterator[list[Instance]]:
    """Instances of both checkpoints, whose answers are drafted. `fault`: of the second's engine, which is given up
    after a while."""
    with contextlib.ExitStack() as running:
        members = []
        for number, weights in enumerate((first, second)):
            own = folder / f"member-{number}"
            own.mkdir()
            options = {"pool": (socket, number), "speculation": Speculation(1, 4)}
            if number and fault is not None:
                options |= {"fault": fault, "worker_options": ("--peer-timeout-s", "8")}
            members.append(running.enter_context(Instance(own, weights, (LAYERS,), ((1.0,),), **options)))
        yield members
