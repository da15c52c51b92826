"""Blocks that real processes take of a pool: shared memory, quotas, and what a dead process held."""

import contextlib
import errno
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.engines.errors import OutOfKvBlocksError
from agents.kv_pool.block_ledger import BlockLedger
from agents.kv_pool.client import LeasedBlocks, PoolLostError, lent_pool
from agents.kv_pool.messages import Join, Take, encode
from agents.kv_pool.owner import PoolOwner
from agents.unit.grants import Grants
from tests.agents.tensors.nodes import wait_until

BLOCKS, BLOCK_BYTES = 40_000, 256
CHILD = """
import sys
from pathlib import Path
from agents.kv_pool.client import lent_pool
path, member, count = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
with lent_pool(path, member) as pool:
    taken = pool.blocks.take(count)
    for block in taken:
        pool.memory[block * pool.block_bytes] = member + 1
    print(*taken, flush=True)
    for line in sys.stdin:
        pool.blocks.give_back(taken[:int(line)])
        print(pool.blocks.free, flush=True)
"""


@pytest.fixture
def ledger() -> BlockLedger:
    return BlockLedger(Grants(BLOCKS, (30_000, 30_000, 10)))


@pytest.fixture
def path(ledger: BlockLedger, short_tmp: Path) -> Iterator[Path]:
    with contextlib.closing(PoolOwner(ledger, BLOCKS, BLOCK_BYTES, short_tmp / "pool")) as owner:
        owner.start()
        yield short_tmp / "pool"


@contextlib.contextmanager
def engine(path: Path, member: int, count: int) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """A process of a member that has taken blocks, and which."""
    command = [sys.executable, "-c", CHILD, str(path), str(member), str(count)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, [int(word) for word in process.stdout.readline().split()]
        finally:
            process.kill()


def test_members_have_blocks_of_one_memory(ledger: BlockLedger, path: Path) -> None:
    with engine(path, 0, 20_000) as (_, first), engine(path, 1, 7) as (process, second), lent_pool(path, 2) as pool:
        assert not set(first) & set(second)
        assert (len(first), len(second)) == (20_000, 7)  # more than a packet has room for
        assert {pool.memory[block * BLOCK_BYTES] for block in first} == {1}
        assert {pool.memory[block * BLOCK_BYTES] for block in second} == {2}
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("5\n")
        process.stdin.flush()
        assert int(process.stdout.readline()) == BLOCKS - 20_000 - 2
        assert ledger.held(1) == frozenset(second[5:])


def test_a_quota_is_the_most_and_a_refusal_takes_nothing(ledger: BlockLedger, path: Path) -> None:
    with lent_pool(path, 2) as pool:
        with pytest.raises(OutOfKvBlocksError) as refused:
            pool.blocks.take(11)
        assert (refused.value.needed, refused.value.free) == (11, 10)
        taken = pool.blocks.take(10)
        assert (len(set(taken)), pool.blocks.free) == (10, 0)
        pool.blocks.give_back(taken)
        assert pool.blocks.free == 10


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_blocks_of_a_process_come_back_when_it_is_dead(ledger: BlockLedger, path: Path, end: signal.Signals) -> None:
    with engine(path, 0, 500) as (process, _), lent_pool(path, 1) as other:
        mine = other.blocks.take(3)
        os.kill(process.pid, signal.SIGSTOP)
        with pytest.raises(PoolLostError), lent_pool(path, 0):
            pass
        assert len(ledger.held(0)) == 500
        os.kill(process.pid, end)
        os.kill(process.pid, signal.SIGCONT)
        wait_until(lambda: not ledger.held(0))
        assert ledger.held(1) == frozenset(mine)
        assert ledger.free == BLOCKS - 3
    with engine(path, 0, 2) as (_, again):
        assert len(again) == 2


def test_who_ends_its_connection_and_lives_keeps_its_blocks(ledger: BlockLedger, path: Path) -> None:
    with lent_pool(path, 0) as pool:
        pool.blocks.take(4)
    with pytest.raises(PoolLostError), lent_pool(path, 0):
        pass
    assert len(ledger.held(0)) == 4


@pytest.mark.parametrize("packet", [b"\xc1", encode(Take(1)), encode(Join(7)), encode(Join(-1)), b"x" * 100])
def test_who_breaks_the_protocol_is_not_heard_any_more(ledger: BlockLedger, path: Path, packet: bytes) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stranger:
        stranger.connect(str(path))
        stranger.send(packet)
        assert stranger.recv(100) == b""
    with lent_pool(path, 0) as pool:
        assert len(pool.blocks.take(2)) == 2


def test_a_lost_owner_is_said(ledger: BlockLedger, short_tmp: Path) -> None:
    owner = PoolOwner(ledger, BLOCKS, BLOCK_BYTES, short_tmp / "lost")
    owner.start()
    with lent_pool(short_tmp / "lost", 0) as pool:
        pool.blocks.take(1)
        owner.close()
        with pytest.raises(PoolLostError):
            pool.blocks.take(1)


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EMFILE])
def test_a_process_whose_end_cannot_be_watched_gets_nothing_and_others_are_served_on(
    path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Such as one in another namespace of processes, whose number is 0 here."""

    def refused(_: int) -> int:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as broken:
        broken.setattr(os, "pidfd_open", refused)
        with pytest.raises(PoolLostError), lent_pool(path, 0):
            pass
    with lent_pool(path, 0) as pool:
        assert len(pool.blocks.take(2)) == 2


def test_an_owner_that_is_gone_with_a_question_unread_is_lost() -> None:
    owner, mine = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def goes() -> None:
        select.select([owner], [], [])
        owner.close()

    gone = threading.Thread(target=goes)
    gone.start()
    with mine, pytest.raises(PoolLostError):
        LeasedBlocks(mine).take(1)
    gone.join()
