"""The owner of a unit's pool: turns and quotas, as processes of members get them."""

import collections
import contextlib
import itertools
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.kv_pool.block_ledger import BlockLedger
from agents.kv_pool.client import lent_pool
from agents.kv_pool.connection import PoolLostError
from agents.kv_pool.leased_quota import leased_quota
from agents.kv_pool.member_shape import MemberShape
from agents.kv_pool.messages import Join, Needs, Ready, TakeTurns, Watch, encode
from agents.kv_pool.owner import PoolOwner
from agents.kv_pool.turns import turns_of
from agents.unit.core import UnitMemberShares
from agents.unit.grants import Grants
from agents.unit.running_unit import RunningUnit
from policies.shared_units.block_quotas import BlockDemand
from tests.agents.tensors.nodes import PATIENCE_S, wait_until

BLOCK_BYTES, BLOCKS, LEAST = 256, 1000, 100
SHAPES = (MemberShape("a", 64, 10), MemberShape("b", 32, 10))
HOLDS_ITS_TURN = """
import sys, time
from pathlib import Path
from agents.kv_pool.turns import turns_of
with turns_of(Path(sys.argv[1]), 0) as turns, turns.turn(prompts=True):
    print("mine", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def unit() -> RunningUnit:
    shares = UnitMemberShares(1.0, 1.0, BlockDemand(1.0, 50.0, LEAST))
    return RunningUnit([shares, shares], BLOCKS, 0.0)


@pytest.fixture
def path(unit: RunningUnit, short_tmp: Path) -> Iterator[Path]:
    place = short_tmp / "unit"
    owner = PoolOwner(BlockLedger(unit.grants), BLOCKS, BLOCK_BYTES, place, unit, SHAPES)
    with contextlib.closing(owner):
        owner.start()
        yield place


def test_engines_compute_one_after_the_other(path: Path) -> None:
    turns_each, at_once, most, done = 100, 0, 0, [0, 0]

    def compute(member: int) -> None:
        nonlocal at_once, most
        with turns_of(path, member) as turns:
            for number in range(turns_each):
                with turns.turn(prompts=number % 3 == 0):
                    at_once += 1
                    time.sleep(1e-4)  # lets the other go, if it may
                    most = max(most, at_once)
                    done[member] += 1
                    at_once -= 1

    members = [threading.Thread(target=compute, args=(member,)) for member in (0, 1)]
    for member in members:
        member.start()
    for member in members:
        member.join()
    assert (most, done) == (1, [turns_each, turns_each])


def test_the_turn_of_a_process_that_is_killed_is_over(path: Path) -> None:
    command = [sys.executable, "-c", HOLDS_ITS_TURN, str(path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process, turns_of(path, 1) as turns:
        assert process.stdout is not None
        assert process.stdout.readline() == "mine\n"
        began = threading.Event()

        def compute() -> None:
            with turns.turn(prompts=False):
                began.set()

        waiting = threading.Thread(target=compute)
        waiting.start()
        process.send_signal(signal.SIGKILL)
        waiting.join()
        assert began.is_set()
    with turns_of(path, 0) as again, again.turn(prompts=True):
        pass


def test_a_scheduler_counts_in_blocks_of_all_layers_and_heads_and_gives_and_gets(path: Path, unit: RunningUnit) -> None:
    with leased_quota(path, 0) as first, leased_quota(path, 1) as second:
        assert (first.block_tokens, second.block_tokens) == (4, 8)
        assert (first.first, first.most) == (50, 90)
        unit.grants.change([700, 300])
        assert first.renew(50, 20) == 50, "the second counts on its 50 yet"
        assert second.renew(50, 0) == 30
        assert second.renew(30, 0) == 30
        assert first.renew(50, 20) == 70
        with lent_pool(path, 0) as pool:
            assert len(pool.blocks.take(700)) == 700
            assert pool.blocks.free == 0
    wait_until(lambda: unit.grants.promised == (700, 300))
    with leased_quota(path, 1) as again:
        assert again.first == 30


@pytest.mark.parametrize(
    "packets",
    [(Join(0), Ready(True)), (Watch(0), Ready(True)), (TakeTurns(0), Needs(1, 1)), (Watch(5),), (Ready(True),)],
)
def test_what_is_not_asked_by_such_a_process_ends_its_connection_alone(path: Path, packets: tuple) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stranger:
        stranger.connect(str(path))
        for packet in packets:
            stranger.send(encode(packet))
        while stranger.recv(1 << 16):
            pass
    with leased_quota(path, 1) as quota, turns_of(path, 1) as turns, turns.turn(prompts=True):
        assert quota.renew(50, 0) == 50


def test_a_process_that_reads_no_answers_holds_nobody_up(path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as deaf:
        deaf.settimeout(PATIENCE_S)
        deaf.connect(str(path))
        deaf.send(encode(Watch(0)))
        with pytest.raises(ConnectionError):
            collections.deque(map(deaf.send, itertools.repeat(encode(Needs(1, 0)))), maxlen=0)
    with leased_quota(path, 1) as quota:
        assert quota.renew(50, 0) == 50


def test_a_folder_may_have_a_longer_name_than_an_address(short_tmp: Path) -> None:
    place = short_tmp / ("long" * 40) / "unit"
    place.parent.mkdir()
    with pytest.raises(PoolLostError), lent_pool(place, 0):
        pass
    with contextlib.closing(PoolOwner(BlockLedger(Grants(10, [10])), 10, BLOCK_BYTES, place)) as owner:
        owner.start()
        with lent_pool(place, 0) as pool:
            assert len(pool.blocks.take(3)) == 3
    assert list(place.parent.iterdir()) == []


def test_a_member_has_one_scheduler(path: Path) -> None:
    with leased_quota(path, 0), pytest.raises(PoolLostError), leased_quota(path, 0):
        pass
