"""Whoever is killed, nothing stays: no memory, no file, no socket, nobody who waits."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from agents.transfer.errors import LinkLostError
from agents.transfer.store import BlobStore
from agents.transfer.take import take
from tests.agents.transfer.parties import PIECE, address_of, text_of
from tests.agents.transfer.test_store import wait_until

Process = subprocess.Popen[str]
Start = Callable[..., Process]
CARRIERS = pytest.mark.parametrize("carrier", ["local", "link"])


@pytest.fixture
def start() -> Iterator[Start]:
    """Parties as processes of their own, which end with the test."""
    started: list[Process] = []

    def run(*arguments: object) -> Process:
        command = [sys.executable, "-m", "tests.agents.transfer.parties", *map(str, arguments)]
        started.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def store() -> Iterator[BlobStore]:
    made = BlobStore(64 << 20, "127.0.0.1", 0.5)
    yield made
    made.close()


def line(process: Process) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def kill(process: Process) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()


def files() -> set[str]:
    return {str(path) for folder in ("/dev/shm", "/tmp") for path in Path(folder).glob("*medley-[ps]*")}  # noqa: S108


def shared_descriptors() -> int:
    """Memory of pieces that this process holds on to."""
    links = (os.readlink(path) for path in Path("/proc/self/fd").iterdir() if path.is_symlink())
    return sum("medley-piece" in link for link in links)


@CARRIERS
@pytest.mark.parametrize("ends", ["ends", "waits"])
def test_a_killed_producer(start: Start, carrier: str, ends: str) -> None:
    """Before and after the blob is complete; one consumer waits for more, another one has not begun."""
    before = files()
    producer = start("produce", 3, ends)
    addresses = [address_of(line(producer)) for _ in range(2)]
    address = addresses[carrier == "link"]
    assert line(producer) in ("published", "all but the end")
    taking = take(address, "it", credit=1, stall_s=0.3)
    held = next(taking)
    rest: list[object] = []

    def wait_for_the_rest() -> None:
        try:
            rest.extend(taking)
        except LinkLostError as error:
            rest.append(error)

    waiting = threading.Thread(target=wait_for_the_rest)
    if ends == "waits":
        waiting.start()
        wait_until(lambda: len(rest) == 2)
    kill(producer)
    if ends == "ends":
        waiting.start()
    waiting.join(60)
    assert isinstance(rest[-1], LinkLostError)
    with pytest.raises(LinkLostError):
        next(take(address, "it", stall_s=0.3))
    assert bytes(held) == PIECE, "what came stays for as long as it is held"
    rest.clear()
    del held
    assert files() == before
    wait_until(lambda: not shared_descriptors())


@CARRIERS
def test_a_killed_consumer(start: Start, store: BlobStore, carrier: str) -> None:
    store.publish("it", [PIECE] * 4, keep_s=60)
    address = store.local_address if carrier == "local" else store.link_address
    consumer = start("consume", text_of(address), 2)
    assert line(consumer) == str(2 * len(PIECE))
    assert store.held_bytes
    kill(consumer)
    wait_until(lambda: not store.held_bytes)
    wait_until(lambda: not store._blobs)
    wait_until(lambda: not shared_descriptors())


@CARRIERS
def test_a_killed_consumer_does_not_hold_up_the_others(start: Start, store: BlobStore, carrier: str) -> None:
    """Nor the producer, which waits for the slowest."""
    address = store.local_address if carrier == "local" else store.link_address
    publishing = threading.Thread(
        target=store.publish, args=("it", [PIECE] * 8), kwargs={"consumers": 2, "ahead": 2, "keep_s": 60}
    )
    publishing.start()
    slow = start("consume", text_of(address), 1)
    assert line(slow) == str(len(PIECE))
    taking = take(address, "it")
    assert len(next(taking)) == len(PIECE)
    kill(slow)
    assert sum(1 for _ in taking) == 7
    publishing.join(60)
    assert not publishing.is_alive()
    wait_until(lambda: not store._blobs)


def test_a_killed_consumer_that_waits_is_noticed(start: Start, store: BlobStore) -> None:
    """Nothing is sent to it, and nothing comes from it."""
    hold = threading.Event()

    def stream() -> Iterator[bytes]:
        yield PIECE
        hold.wait(60)

    publishing = threading.Thread(target=store.publish, args=("it", stream()))
    publishing.start()
    consumer = start("consume", text_of(store.local_address), 2)
    wait_until(lambda: store._blobs["it"]._done)
    kill(consumer)
    wait_until(lambda: not store.held_bytes)
    hold.set()
    publishing.join(60)
    assert not publishing.is_alive()


def test_the_parties_leave_no_process_behind(start: Start) -> None:
    producer = start("produce", 1, "ends")
    assert line(producer)
    children = psutil.Process(producer.pid).children(recursive=True)
    assert children == []
