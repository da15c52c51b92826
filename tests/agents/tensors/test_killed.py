"""Whoever is killed, nothing stays: no memory, no file, nobody who waits."""

import gc
import json
import os
import re
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from agents.tensors.client import TensorClient
from agents.transfer.errors import BlobGoneError, LinkLostError
from tests.agents.tensors.nodes import IMPATIENT, PATIENCE_S, Node, wait_until
from tests.agents.tensors.parties import SIZE

Process = subprocess.Popen[str]
Start = Callable[..., Process]
Nodes = Callable[..., Node]


@pytest.fixture
def party() -> Iterator[Start]:
    """Processes of their own, which end with the test."""
    started: list[Process] = []

    def run(module: str, *arguments: object) -> Process:
        command = [sys.executable, "-m", module, *map(str, arguments)]
        started.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.communicate()


def line(process: Process) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def kill(process: Process) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()


def mappings() -> int:
    """Slabs that this process has mapped."""
    gc.collect()
    return slabs(os.getpid())


def slabs(process: int) -> int:
    """Slabs that a process has mapped, none of which has a file that could stay."""
    maps = Path(f"/proc/{process}/maps").read_text()
    assert not re.search(r"/dev/shm/\S*medley", maps)  # noqa: S108 - semaphores of libraries lie there
    return len(re.findall(r"/memfd:medley-piece \(deleted\)$", maps, re.MULTILINE))


PARTIES = "tests.agents.tensors.parties"


def test_a_producer_that_is_killed_takes_along_what_is_not_complete(node: Node, other: Node, party: Start) -> None:
    """Its consumers, who have half of it and wait for the rest, are told at once."""
    producer = party(PARTIES, "produce", node.name, "half")
    assert line(producer) == "ready"
    source = node.client().address
    with ThreadPoolExecutor(1) as thread:
        taking = thread.submit(other.client().take, "it", source)
        wait_until(lambda: other.waiting and other.held_bytes)
        kill(producer)
        with pytest.raises(BlobGoneError):
            taking.result(PATIENCE_S)
    wait_until(lambda: not any((node.held_bytes, other.held_bytes, node.tensors, other.tensors)))


def test_what_a_killed_producer_completed_is_there_and_a_killed_consumer_holds_up_nobody(
    node: Node, party: Start
) -> None:
    producer = party(PARTIES, "produce", node.name, "whole")
    assert line(producer) == "ready"
    kill(producer)
    consumer = party(PARTIES, "consume", node.name, "stay")
    assert line(consumer) == str(7 * SIZE)
    kill(consumer)
    assert (node.client().take("it").array == 7).all()
    wait_until(lambda: not node.held_bytes and not node.tensors)


def test_memory_of_a_process_that_hung_up_comes_back_when_it_is_dead(node: Node, party: Start) -> None:
    """It may still read there, and so does this one."""
    node.client().put("it", np.full(SIZE, 7, np.uint8))
    consumer = party(PARTIES, "consume", node.name, "hang up")
    assert line(consumer) == str(7 * SIZE)
    wait_until(lambda: node.known_processes == 1)
    client = node.client("another")
    for number in range(8):  # time passes, and others use the slab
        client.put(f"n{number}", np.zeros(SIZE, np.uint8))
        client.take(f"n{number}")
    wait_until(lambda: node.held_bytes == SIZE)
    kill(consumer)
    wait_until(lambda: not node.held_bytes)


def sidecar(party: Start, *more: object) -> tuple[Process, str]:
    name = f"medley-test-{secrets.token_hex(8)}"
    process = party("agents.tensors", "--name", name, "--slab-mib", 4, "--chunk-kib", 64, *more)
    assert json.loads(line(process))["name"] == name
    return process, name


def test_a_killed_sidecar_leaves_nothing_and_nobody_waits_for_it(start: Nodes, party: Start) -> None:
    """A consumer here, one on another node that has half of it, and a producer in the middle."""
    node = start(IMPATIENT)
    far = node.client()
    mapped = mappings()
    process, name = sidecar(party)
    producer, consumer = TensorClient(name, "producer"), TensorClient(name, "consumer", writes=False)
    producer.put("read", np.full(SIZE, 7, np.uint8))
    taken = consumer.take("read")
    writer = producer.create("it", "uint8", (SIZE,), consumers=2)
    writer._commit()
    with ThreadPoolExecutor(2) as threads:
        waiting = [
            threads.submit(consumer.take, "it"),
            threads.submit(far.take, "it", producer.address),
        ]
        wait_until(lambda: node.waiting and node.held_bytes)
        assert slabs(process.pid) == 1
        kill(process)
        for each in waiting:
            with pytest.raises(LinkLostError):
                each.result(PATIENCE_S)
    with pytest.raises(LinkLostError):
        writer.end()
    with pytest.raises(LinkLostError):
        producer.put("more", np.zeros(1))
    assert (taken.array == 7).all(), "what is looked at stays until then"
    assert mappings() > mapped
    del taken, writer, waiting, each
    producer.close()
    consumer.close()
    del producer, consumer
    wait_until(lambda: mappings() == mapped)
    wait_until(lambda: not node.held_bytes and not node.tensors)


def test_a_killed_sidecar_of_a_consumer_holds_up_no_producer(start: Nodes, party: Start) -> None:
    """Which waits for that consumer to be a chunk behind, and is told when it does not come back."""
    node = start(IMPATIENT)
    process, name = sidecar(party)
    consumer, producer = TensorClient(name, "consumer", writes=False), node.client()
    rows = np.full(SIZE // 4, 7, np.uint8)
    writer = producer.stream("it", "uint8", (), ahead=1)
    writer.write(rows)
    taking = consumer.take_stream("it", producer.address)
    assert (next(taking).array == 7).all()
    kill(process)
    for _ in range(2):
        with suppress(BlobGoneError):
            writer.write(rows)
    with pytest.raises(BlobGoneError):
        writer.write(rows)
    writer.withdraw()
    wait_until(lambda: not node.held_bytes and not node.tensors)


def test_a_sidecar_ends_with_its_owner_and_by_signal(party: Start) -> None:
    owner = subprocess.Popen(["sleep", "600"])
    process, name = sidecar(party, "--owner", owner.pid)
    client = TensorClient(name, "executor")
    owner.kill()
    owner.wait()
    assert process.wait(PATIENCE_S) == 0
    with pytest.raises(LinkLostError):
        client.put("it", np.zeros(1))
    process, _ = sidecar(party)
    process.terminate()
    assert process.wait(PATIENCE_S) == 0


def test_a_sidecar_whose_name_is_taken_or_has_no_memory_says_so(node: Node, party: Start) -> None:
    for arguments in (("--name", node.name, "--slab-mib", 4), ("--name", "medley-x", "--slab-mib", 1 << 30)):
        process = party("agents.tensors", *arguments)
        assert process.wait(PATIENCE_S) == 1
