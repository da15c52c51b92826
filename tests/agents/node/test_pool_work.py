"""The owner of a shared KV cache as a child of a node agent: it serves, or its node hears why not."""

import asyncio
import os
import signal
from pathlib import Path

import msgspec
import psutil
import pytest

from agents.channels.address import Address
from agents.channels.keys import KeyPair
from agents.kv_pool.leased_quota import leased_quota
from agents.messages.to_node import Pool, PoolMember, Run, Work
from agents.node.instance_work import InstanceWork
from agents.node.pool_work import PoolWork
from agents.node.settings import NodeSettings

MODEL = PoolMember("path:/nowhere", "float32", 1.0, 1.0, 100.0, 256)


def settings_in(home: Path) -> NodeSettings:
    return NodeSettings(home, Address("tcp://127.0.0.1:1", "k" * 40))


@pytest.mark.parametrize(
    ("home", "member", "words"),
    [("gone", MODEL, "gone/pool-"), ("", msgspec.structs.replace(MODEL, dtype="int3"), "int3")],
)
def test_where_none_can_be_started_the_instance_fails_and_no_member_is(
    tmp_path: Path, home: str, member: PoolMember, words: str
) -> None:
    """Such as on a full disk. Before the pool is known, members wait."""

    async def scenario() -> None:
        work = InstanceWork(
            "i1", KeyPair.generate(), tmp_path / "key", settings_in(tmp_path / home), lambda: None, lambda: None
        )
        runs = (Run("a", "m", restarts=True, member=0),)
        await work.follow(Work("i1", runs))
        assert (work.report().executors, work.report().failure) == ((), "")
        await work.follow(Work("i1", runs, pool=Pool(1 << 20, (member,))))
        assert work.report().executors == ()
        assert words in work.report().failure
        await work.stop()

    asyncio.run(scenario())
    assert list(tmp_path.rglob("pool-*")) == []


def test_one_that_dies_says_so_and_has_not_the_memory_of_those_who_read_checkpoints(
    tmp_path: Path, tiny_llama: Path
) -> None:
    async def scenario() -> None:
        died: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        work = PoolWork(settings_in(tmp_path), died.set_result)
        before = set(psutil.Process().children())
        await work.start(Pool(1 << 20, (msgspec.structs.replace(MODEL, weights=f"path:{tiny_llama}"),)))
        (owner,) = set(psutil.Process().children()) - before
        with leased_quota(work.socket, 0) as quota:
            assert quota.first > 0
            assert not [each for each in owner.memory_maps() if "torch" in each.path]
            os.kill(owner.pid, signal.SIGKILL)
            async with asyncio.timeout(60):
                assert "SIGKILL" in await died
        await work.stop()

    asyncio.run(scenario())
    assert list(tmp_path.rglob("pool-*")) == []
