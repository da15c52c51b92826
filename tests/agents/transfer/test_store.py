"""What a store promises its consumers, by shared memory and over links alike."""

import select
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import msgspec
import numpy as np
import pytest

from agents.messages.to_store import Take
from agents.transfer import store as store_module
from agents.transfer.carriers import dial
from agents.transfer.errors import BadPieceError, BlobGoneError, LinkLostError, StoreFullError
from agents.transfer.meeting import LinkAddress
from agents.transfer.memory import Segment
from agents.transfer.store import BlobStore
from agents.transfer.take import take

Address = str | LinkAddress
PATIENCE_S = 60
STALL_S = 1.0
BOUND = 64 << 20
SIZES = (0, 1, 100, 4096, 65_537, 3_000_001)


@pytest.fixture
def store() -> Iterator[BlobStore]:
    made = BlobStore(BOUND, "127.0.0.1", STALL_S)
    yield made
    made.close()


@pytest.fixture(params=["local", "link"])
def address(request: pytest.FixtureRequest, store: BlobStore) -> Address:
    return store.local_address if request.param == "local" else store.link_address


def random_pieces(sizes: tuple[int, ...] = SIZES) -> list[bytes]:
    rng = np.random.default_rng(len(sizes))
    return [rng.bytes(size) for size in sizes]


def taken(address: Address, name: str = "it", **terms: object) -> list[bytes]:
    return [bytes(piece) for piece in take(address, name, **terms)]  # type: ignore[arg-type]


def wait_until(condition: Callable[[], object]) -> None:
    """For what a thread of the store does next."""
    changed = threading.Event()
    for _ in range(int(PATIENCE_S / 0.02)):
        if condition():
            return
        changed.wait(0.02)
    raise AssertionError("it did not come to that")


def test_pieces_of_all_sizes_come_whole_and_in_order_and_are_freed(store: BlobStore, address: Address) -> None:
    pieces = random_pieces()
    store.publish("it", pieces)
    assert store.held_bytes >= sum(map(len, pieces))
    assert taken(address) == pieces
    assert store.held_bytes == 0
    wait_until(lambda: "it" not in store._blobs or not isinstance(address, str))


def test_a_blob_of_no_piece_is_empty(store: BlobStore, address: Address) -> None:
    store.publish("it", [])
    assert taken(address) == []


def test_a_stream_is_taken_while_it_comes(store: BlobStore, address: Address) -> None:
    """Each piece is made when the one before has arrived, and the consumer is there before the first."""
    arrived = [threading.Event() for _ in range(5)]

    def stream() -> Iterator[bytes]:
        for number, event in enumerate(arrived):
            yield bytes([number]) * 1000
            assert event.wait(PATIENCE_S)

    with ThreadPoolExecutor(2) as thread:
        taking = take(address, "it")
        first = thread.submit(next, taking)
        wait_until(first.running)
        publishing = thread.submit(store.publish, "it", stream())
        assert first.result(PATIENCE_S)[0] == 0
        arrived[0].set()
        for number, piece in enumerate(taking, start=1):
            assert bytes(piece) == bytes([number]) * 1000
            arrived[number].set()
        publishing.result(PATIENCE_S)


def test_several_consumers_have_all_of_it_by_either_carrier(store: BlobStore) -> None:
    pieces = random_pieces()
    store.publish("it", pieces, consumers=4)
    addresses = [store.local_address, store.link_address] * 2
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(taken, addresses)) == [pieces] * 4
    assert store.held_bytes == 0


def test_one_consumer_too_many_is_refused(store: BlobStore, address: Address) -> None:
    store.publish("it", [b"a"])
    held = take(address, "it")
    assert bytes(next(held)) == b"a"
    with pytest.raises(BadPieceError, match="all its consumers"):
        taken(address)


def test_a_producer_waits_for_a_slow_consumer(store: BlobStore, address: Address) -> None:
    made = []

    def stream() -> Iterator[bytes]:
        for number in range(10):
            made.append(number)
            yield b"x" * 70_000

    with ThreadPoolExecutor(1) as thread:
        publishing = thread.submit(store.publish, "it", stream(), ahead=3)
        taking = take(address, "it", credit=1)
        for number, piece in enumerate(taking):
            assert len(piece) == 70_000
            wait_until(lambda number=number: len(made) == min(10, number + 4))
            assert store.held_bytes <= 3 * 70_000
        publishing.result(PATIENCE_S)


def test_no_more_comes_than_there_is_credit_for(store: BlobStore, address: Address) -> None:
    store.publish("it", [b"a", b"b", b"c"])
    carrier = dial(address, STALL_S, 100)
    for index in (0, 1):
        carrier.send(msgspec.msgpack.encode(Take("it", "0" * 32, index, 0, 1.0)))
    for expected in (b"a", b"b"):
        piece = carrier.receive()[1]
        assert piece is not None
        assert bytes(piece.view()) == expected
    assert not select.select([carrier], [], [], 0.2)[0]
    carrier.close()


def test_whoever_takes_what_is_withdrawn_is_told_and_keeps_what_came(store: BlobStore, address: Address) -> None:
    store.publish("it", random_pieces((10, 10, 10)))
    taking = take(address, "it", credit=1)
    held = next(taking)
    store.withdraw("it")
    assert store.held_bytes == 0
    with pytest.raises(BlobGoneError, match="withdrawn"):
        next(taking)
    assert bytes(held) == random_pieces((10, 10, 10))[0]
    wait_until(lambda: not store._blobs)
    with pytest.raises(BlobGoneError):
        taken(address, wait_s=0.1)


def test_a_producer_that_fails_takes_its_blob_along(store: BlobStore, address: Address) -> None:
    def stream() -> Iterator[bytes]:
        yield b"a"
        waiting.wait(PATIENCE_S)
        raise ZeroDivisionError

    waiting = threading.Event()
    with ThreadPoolExecutor(1) as thread:
        publishing = thread.submit(store.publish, "it", stream())
        taking = take(address, "it")
        assert bytes(next(taking)) == b"a"
        waiting.set()
        with pytest.raises(BlobGoneError, match="withdrawn"):
            next(taking)
        with pytest.raises(ZeroDivisionError):
            publishing.result(PATIENCE_S)
    assert store.held_bytes == 0


def test_a_deadline_frees_what_nobody_takes_and_tells_who_waits_for_more(store: BlobStore, address: Address) -> None:
    hold = threading.Event()

    def stream() -> Iterator[bytes]:
        yield b"a"
        hold.wait(PATIENCE_S)
        yield b"b"

    store.publish("forgotten", random_pieces(), keep_s=0.01)
    with ThreadPoolExecutor(1) as thread:
        publishing = thread.submit(store.publish, "it", stream(), keep_s=0.5)
        with pytest.raises(BlobGoneError, match="deadline"):
            taken(address)
        hold.set()
        with pytest.raises(BlobGoneError, match="deadline"):
            publishing.result(PATIENCE_S)
    wait_until(lambda: store.held_bytes == 0)


def test_a_blob_that_never_comes_is_waited_for_no_longer_than_wanted(address: Address) -> None:
    with pytest.raises(BlobGoneError, match="no blob it has come"):
        taken(address, wait_s=0.1)


def test_a_full_store_refuses_and_keeps_what_it_has(store: BlobStore, address: Address) -> None:
    pieces = [b"x" * (BOUND // 4)] * 3
    store.publish("it", pieces)
    with pytest.raises(StoreFullError):
        store.publish("other", [b"y", b"y" * (BOUND // 4)])
    assert store.held_bytes == 3 * (BOUND // 4), "nothing of the other is left"
    with pytest.raises(StoreFullError):
        store.publish("many", (b"z" for _ in range(1 << 20)))
    assert [len(piece) for piece in take(address, "it")] == [len(piece) for piece in pieces]
    store.publish("other", [b"y" * (BOUND // 4)])


def test_a_name_is_given_once(store: BlobStore) -> None:
    store.publish("it", [b"a"])
    with pytest.raises(BadPieceError, match="there already"):
        store.publish("it", [b"b"])
    for name in ("", "a/b", "a" * 201, "a\n"):
        with pytest.raises(msgspec.ValidationError):
            store.publish(name, [])


def test_a_consumer_that_stops_early_holds_nothing_back(store: BlobStore, address: Address) -> None:
    store.publish("it", random_pieces(), keep_s=PATIENCE_S)
    taking = take(address, "it")
    next(taking)
    taking.close()  # type: ignore[attr-defined]
    wait_until(lambda: store.held_bytes == 0)
    wait_until(lambda: not store._blobs)


def test_what_came_can_be_read_only(store: BlobStore) -> None:
    store.publish("it", [b"abc"], consumers=2)
    piece = next(iter(take(store.local_address, "it")))
    assert piece.readonly
    carrier = dial(store.local_address, STALL_S, 100)
    carrier.send(msgspec.msgpack.encode(Take("it", "0" * 32, 0, 0, 1.0)))
    segment = carrier.receive()[1]
    assert isinstance(segment, Segment)
    with pytest.raises(PermissionError):
        segment.memory()
    carrier.close()


class Relay:
    """Passes bytes on between links and a store, and cuts each link behind a number of bytes to the consumer."""

    def __init__(self, address: LinkAddress, cut_behind: list[int]) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = LinkAddress("127.0.0.1", self._listening.getsockname()[1], address.token)
        self._target = (address.host, address.port)
        self._cuts = cut_behind
        self.links = 0
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        with suppress(OSError):
            while True:
                ours = self._listening.accept()[0]
                left = self._cuts[self.links] if self.links < len(self._cuts) else 1 << 40
                self.links += 1
                self._pass_on(ours, left)

    def _pass_on(self, ours: socket.socket, left: int) -> None:
        with ours, socket.create_connection(self._target) as theirs:
            while left > 0:
                for ready in select.select([ours, theirs], [], [])[0]:
                    if not (found := ready.recv(1 << 16)):
                        return
                    (ours if ready is theirs else theirs).sendall(found[:left] if ready is theirs else found)
                    left -= len(found) if ready is theirs else 0

    def close(self) -> None:
        self._listening.close()


@contextmanager
def relay(address: LinkAddress, cuts: list[int]) -> Iterator[Relay]:
    made = Relay(address, cuts)
    yield made
    made.close()


def test_a_link_that_is_cut_goes_on_where_it_was(store: BlobStore) -> None:
    """In the middle of a header, of a message and of a piece, and again and again."""
    pieces = random_pieces()
    store.publish("it", pieces)
    cuts = [1, 12, 500, 70_000, 100_000]
    with relay(store.link_address, cuts) as between:
        assert taken(between.address) == pieces
        assert between.links == len(cuts) + 1
    assert store.held_bytes == 0


def test_a_link_that_stays_cut_is_given_up_by_both_ends() -> None:
    short = BlobStore(BOUND, "127.0.0.1", 0.3)
    short.publish("it", random_pieces(), keep_s=PATIENCE_S)
    with relay(short.link_address, [100_000, *[0] * 10_000]) as between, pytest.raises(LinkLostError):
        taken(between.address, stall_s=0.5)
    wait_until(lambda: short.held_bytes == 0)
    wait_until(lambda: not short._blobs)
    short.close()


@pytest.mark.parametrize("said", [b"", b"nonsense", b"\xff" * 100, bytes(9000)])
def test_nonsense_ends_a_connection_and_nothing_else(store: BlobStore, address: Address, said: bytes) -> None:
    store.publish("it", [b"a"])
    if isinstance(address, str):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stranger:
            stranger.connect(f"\0{address}")
            stranger.settimeout(PATIENCE_S)
            socket.send_fds(stranger, [said or b"x"], [0, 1])
            assert stranger.recv(1) == b""
    else:
        for token in (b"\0" * 32, address.token):
            with socket.create_connection((address.host, address.port), PATIENCE_S) as stranger, suppress(OSError):
                stranger.sendall(token + said)
                stranger.shutdown(socket.SHUT_WR)
                assert stranger.recv(1) == b""
    assert taken(address) == [b"a"]


def test_a_piece_larger_than_agreed_is_refused_before_there_is_memory_for_it(store: BlobStore) -> None:
    store.publish("it", [b"x" * 1000])
    with pytest.raises(BadPieceError, match="too large"):
        taken(store.link_address, max_piece_bytes=999)


def test_more_connections_than_allowed_are_hung_up_on(store: BlobStore, address: Address) -> None:
    store._free_connections = threading.Semaphore(1)
    store.publish("it", [b"a", b"b"], consumers=2)
    held = take(address, "it", credit=1)
    next(held)
    with pytest.raises(LinkLostError):
        taken(address, stall_s=0.2)
    assert store_module._MAX_CONNECTIONS > 1
    assert bytes(next(held)) == b"b"


def test_a_store_that_closes_says_so_to_whoever_waits(address: Address, store: BlobStore) -> None:
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(taken, address, stall_s=0.2)
        wait_until(lambda: store._free_connections._value < store_module._MAX_CONNECTIONS)
        store.close()
        with pytest.raises(LinkLostError):
            waiting.result(PATIENCE_S)
