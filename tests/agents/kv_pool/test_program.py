"""`python -m agents.kv_pool`, as a node starts it for models on its disk."""

import json
import signal
import subprocess
from pathlib import Path

import msgspec
import pytest

from agents.kv_pool.client import lent_pool
from agents.kv_pool.leased_quota import leased_quota
from agents.messages.to_node import Pool, PoolMember
from tests.agents.engines.tiny_models import LAYERS
from tests.forked import Forked

UNITS = 2 * 2 * LAYERS


def started(folder: Path, pool: Pool) -> Forked:
    (folder / "pool.json").write_bytes(msgspec.json.encode(pool))
    with (folder / "log").open("w") as log:
        places = ("--pool", folder / "pool.json", "--socket", folder / "socket")
        return Forked("agents.kv_pool", places, stdout=subprocess.PIPE, stderr=log)


def member(checkpoint: Path, rate: float, dtype: str = "float32", longest: int = 256) -> PoolMember:
    return PoolMember(f"path:{checkpoint}", dtype, 1.0, rate, 100.0, longest)


def test_members_have_quotas_by_their_rates_in_blocks_of_their_own_shape(checkpoint: Path, short_tmp: Path) -> None:
    members = member(checkpoint, 3.0), member(checkpoint, 1.0, "bfloat16")
    process = started(short_tmp, Pool(16 << 20, members))
    try:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["socket"] == str(short_tmp / "socket")
        with leased_quota(short_tmp / "socket", 0) as wide, leased_quota(short_tmp / "socket", 1) as narrow:
            assert narrow.block_tokens == 2 * wide.block_tokens
            assert wide.first > 2 * narrow.first > 0
            with lent_pool(short_tmp / "socket", 0) as pool:
                assert len(pool.memory) // pool.block_bytes >= (wide.first + narrow.first) * UNITS
                assert wide.first * UNITS <= pool.blocks.free < (wide.first + 1) * UNITS
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_a_pool_that_holds_the_tokens_of_the_longest_requests_is_enough(checkpoint: Path, short_tmp: Path) -> None:
    """Of 200 tokens each, and as many more as a plan counts; in blocks of 64 they are 256."""
    row = 32 * 4
    process = started(short_tmp, Pool(2 * 216 * UNITS * row, (member(checkpoint, 1.0, longest=200),) * 2))
    try:
        assert process.stdout is not None
        assert process.stdout.readline()
        with leased_quota(short_tmp / "socket", 0) as quota:
            assert quota.block_tokens == 64
            assert quota.most == 3
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"bytes": 1 << 19}, "longest request"), ({"dtype": "int3"}, "int3"), ({"weights": "path:/nowhere"}, "/nowhere")],
)
def test_what_cannot_be_shared_is_said(checkpoint: Path, short_tmp: Path, changes: dict, words: str) -> None:
    size = changes.pop("bytes", 16 << 20)
    one = msgspec.structs.replace(member(checkpoint, 1.0), **changes)
    process = started(short_tmp, Pool(size, (one, member(checkpoint, 1.0))))
    assert process.wait(60) != 0
    assert words in (short_tmp / "log").read_text()
