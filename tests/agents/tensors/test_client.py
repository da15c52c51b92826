"""What a sidecar promises those who put and take tensors, inside a node and between two."""

import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from agents.messages.to_sidecar import SidecarAddress
from agents.tensors.client import TensorClient
from agents.tensors.view import TensorView
from agents.transfer.errors import BadPieceError, BlobGoneError, StoreFullError, TransferError
from tests.agents.tensors.nodes import PAGE, PATIENCE_S, SETTINGS, Node, wait_until

Nodes = Callable[..., Node]
KEY = "sha256:" + "0" * 32


class Ends:
    """A producer on one node, and consumers on the same one or another."""

    def __init__(self, node: Node, other: Node | None) -> None:
        self.node = node
        self.at = other or node
        self.producer = node.client("producer")
        self.consumer = self.at.client("consumer", writes=False)
        self.source: SidecarAddress | None = self.producer.address if other else None

    def has_nothing_left(self) -> bool:
        return not any((self.node.held_bytes, self.at.held_bytes, self.node.tensors, self.at.tensors))


@pytest.fixture(params=["same node", "other node"])
def ends(request: pytest.FixtureRequest, node: Node) -> Ends:
    return Ends(node, request.getfixturevalue("other") if request.param == "other node" else None)


def numbers(*shape: int, dtype: str = "float32") -> npt.NDArray[np.generic]:
    return np.asarray(np.random.default_rng(len(shape)).integers(0, 100, shape)).astype(dtype)


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((100, 1000), "float32"), ((3,), "int64"), ((), "float64"), ((0, 5), "float16"), ((16 * PAGE,), "uint8"),
     ((16 * PAGE + 1,), "bool")],
)  # fmt: skip
def test_a_tensor_comes_whole_and_can_only_be_read_and_then_nothing_is_left(
    ends: Ends, shape: tuple[int, ...], dtype: str
) -> None:
    array = numbers(*shape, dtype=dtype)
    ends.producer.put("it", array)
    taken = ends.consumer.take("it", ends.source)
    assert taken.array.dtype == array.dtype
    np.testing.assert_array_equal(taken.array, array)
    assert not taken.array.flags.writeable or not array.size
    del taken
    wait_until(ends.has_nothing_left)


def test_arrays_that_do_not_lie_in_order_are_put_as_they_read(ends: Ends) -> None:
    array = numbers(300, 200)
    ends.producer.put("it", array.T)
    np.testing.assert_array_equal(ends.consumer.take("it", ends.source).array, array.T)


def test_torch_sees_the_same_bytes(node: Node) -> None:
    torch = pytest.importorskip("torch")
    client = node.client()
    expected = torch.arange(0, 10_000, dtype=torch.float32).to(torch.bfloat16).view(100, 100)
    client.put("it", expected.view(torch.uint16).numpy(), dtype="bfloat16")
    taken = client.take("it")
    assert torch.equal(taken.torch(), expected)
    assert taken.torch().data_ptr() == taken.array.ctypes.data


def test_who_asks_before_the_tensor_is_there_gets_it_as_it_comes(ends: Ends) -> None:
    array = numbers(100, 1000)
    with ThreadPoolExecutor(1) as thread:
        taking = thread.submit(ends.consumer.take, "it", ends.source)
        wait_until(taking.running)
        with ends.producer.create("it", "float32", array.shape) as writer:
            writer.array[...] = array
        np.testing.assert_array_equal(taking.result(PATIENCE_S).array, array)


def test_what_is_looked_at_stays_as_it_is_while_others_use_the_rest(ends: Ends) -> None:
    array = numbers(16 * PAGE, dtype="uint8")
    ends.producer.put("it", array)
    taken = ends.consumer.take("it", ends.source)
    row = taken.array[5:]
    del taken
    for number in range(12):  # more than the slab has, in all
        ends.producer.put(f"n{number}", np.full(31 * PAGE, number, np.uint8))
        assert (ends.consumer.take(f"n{number}", ends.source).array == number).all()
    np.testing.assert_array_equal(row, array[5:])


def test_several_consumers_here_and_there_get_all_of_it(node: Node, other: Node) -> None:
    array = numbers(100, 1000)
    producer = node.client()
    producer.put("it", array, consumers=3)
    places = [(node.client(), None), (node.client(), None), (other.client(), producer.address)]
    with ThreadPoolExecutor(3) as threads:
        taken = list(threads.map(lambda place: place[0].take("it", place[1]).array.copy(), places))
    for each in taken:
        np.testing.assert_array_equal(each, array)
    with pytest.raises(TransferError):
        node.client().take("it", wait_s=0.1)
    wait_until(lambda: not node.held_bytes and not other.held_bytes)


def test_a_group_pulls_once_and_each_rank_has_the_whole_or_its_slice(node: Node, other: Node) -> None:
    array = numbers(4, 6, 1000)
    producer = node.client()
    producer.put("it", array, consumers=1)
    ranks = [other.client(f"rank {rank}") for rank in range(2)]
    with ThreadPoolExecutor(2) as threads:
        whole = list(threads.map(lambda rank: rank.take("it", producer.address, consumers=2), ranks))
    for rank, taken in enumerate(whole):
        np.testing.assert_array_equal(taken.array, array)
        for axis in (0, 1, 2):
            part = taken.part(rank, 2, axis).array
            np.testing.assert_array_equal(part, np.array_split(array, 2, axis)[rank])
            assert np.shares_memory(part, taken.array)
    with pytest.raises(BadPieceError):
        whole[0].part(0, 3, 0)
    del whole, taken, part
    wait_until(lambda: not other.held_bytes)


def test_a_stream_is_taken_while_it_comes(ends: Ends) -> None:
    """Each part is made when the one before has arrived, and the consumer is there before the first."""
    arrived = [threading.Event() for _ in range(5)]
    rows = numbers(5, 7, 3)

    def produce() -> None:
        with ends.producer.stream("it", "float32", (3,)) as writer:
            for part, event in zip(rows, arrived, strict=True):
                writer.write(part)
                assert event.wait(PATIENCE_S)

    with ThreadPoolExecutor(1) as thread:
        producing = thread.submit(produce)
        came = []
        for part, event in zip(ends.consumer.take_stream("it", ends.source), arrived, strict=True):
            came.append(part.array.copy())
            event.set()
        producing.result(PATIENCE_S)
    np.testing.assert_array_equal(np.stack(came), rows)
    del part
    wait_until(ends.has_nothing_left)


def test_rows_of_a_stream_are_cut_into_chunks_and_lost_by_nobody(ends: Ends) -> None:
    rows = numbers(1000, 500)

    def produce() -> None:
        with ends.producer.stream("it", "float32", (500,), ahead=3) as writer:
            writer.write(rows)
            writer.write(rows[:0])
            with pytest.raises(BadPieceError):
                writer.write(rows[:, :2])

    with ThreadPoolExecutor(1) as thread:
        producing = thread.submit(produce)
        came = [part.array.copy() for part in ends.consumer.take_stream("it", ends.source)]
        producing.result(PATIENCE_S)
    assert len(came) > 3
    np.testing.assert_array_equal(np.concatenate(came), rows)


def test_what_is_pushed_is_there_before_it_is_asked_for(node: Node, other: Node) -> None:
    array = numbers(100, 1000)
    producer, consumer = node.client(), other.client()
    writer = producer.create("it", "float32", array.shape)
    producer.push("it", consumer.address)
    writer.fill(array)
    writer.end()
    wait_until(lambda: not node.held_bytes)
    np.testing.assert_array_equal(consumer.take("it", producer.address).array, array)


def test_more_than_fits_waits_and_is_lost_by_nobody(ends: Ends) -> None:
    """Three producers with five times the slab in all, and consumers that hold on to what they have for a while."""
    count = 16

    def produce(place: int) -> None:
        producer = ends.node.client(f"producer {place}")
        for number in range(count):
            producer.put(f"{place}.{number}", np.full(28 * PAGE, place * count + number, np.uint8))

    def consume(place: int) -> None:
        before = None
        for number in range(count):
            taken = ends.consumer.take(f"{place}.{number}", ends.source)
            assert (taken.array == place * count + number).all()
            assert before is None or (before.array == place * count + number - 1).all()
            before = taken

    with ThreadPoolExecutor(6) as threads:
        for work in [threads.submit(act, place) for place in range(3) for act in (produce, consume)]:
            work.result(PATIENCE_S)
    wait_until(ends.has_nothing_left)


def test_what_cannot_be_is_refused_by_the_type_of_its_error(ends: Ends) -> None:
    with pytest.raises(StoreFullError):
        ends.producer.put("huge", np.zeros(128 * PAGE + 1, np.uint8))
    with pytest.raises(BlobGoneError):
        ends.consumer.take("nothing", ends.source, wait_s=0.1)
    ends.producer.put("it", numbers(10))
    for name in ("it", "", "a/b", "a" * 201, "a\n"):
        with pytest.raises(BadPieceError):
            ends.producer.put(name, numbers(10))
    for array in (numbers(10).astype("complex64"), numbers(10).astype(">f4")):
        with pytest.raises(BadPieceError):
            ends.producer.put("other", array)
    with pytest.raises(BadPieceError):
        list(ends.consumer.take_stream("it", ends.source))


def test_a_tensor_that_its_producer_gives_up_is_gone_for_those_who_wait(ends: Ends) -> None:

    def fail(threads: ThreadPoolExecutor) -> None:
        with ends.producer.create("it", "uint8", (40 * PAGE,)):
            taking.append(threads.submit(ends.consumer.take, "it", ends.source))
            wait_until(lambda: ends.at.waiting and ends.at.tensors)
            raise ZeroDivisionError

    taking: list[Future[TensorView]] = []
    with ThreadPoolExecutor(1) as threads:
        with pytest.raises(ZeroDivisionError):
            fail(threads)
        with pytest.raises(BlobGoneError):
            taking[0].result(PATIENCE_S)
    ends.producer.put("complete", numbers(10))
    ends.producer.withdraw("complete")
    with pytest.raises(BlobGoneError):
        ends.consumer.take("complete", ends.source, wait_s=0.1)
    wait_until(ends.has_nothing_left)


def test_a_deadline_frees_what_nobody_takes_and_stops_who_writes_on(ends: Ends) -> None:
    ends.producer.put("forgotten", numbers(10), keep_s=0.5)
    writer = ends.producer.create("it", "uint8", (40 * PAGE,), keep_s=0.5)
    wait_until(lambda: not ends.node.tensors)
    assert ends.node.held_bytes == 40 * PAGE, "it may still write there"
    with pytest.raises(BlobGoneError):
        writer.end()
    writer.withdraw()
    wait_until(ends.has_nothing_left)


def test_a_consumer_that_stops_early_holds_nothing_back(ends: Ends) -> None:
    with ends.producer.stream("it", "uint8", ()) as writer:
        writer.write(numbers(100 * PAGE, dtype="uint8"))
    taking = ends.consumer.take_stream("it", ends.source)
    next(taking)
    taking.close()  # type: ignore[attr-defined]
    wait_until(ends.has_nothing_left)


def test_rows_seen_before_are_found_and_make_room_for_others(node: Node) -> None:
    producer, consumer = node.client("encoder"), node.client("decoder")
    array = numbers(100, 100)
    assert producer.adopt("it", KEY) is None
    producer.put("it", array, key=KEY)
    np.testing.assert_array_equal(consumer.take("it").array, array)
    for number in range(3):
        spec = producer.adopt(f"again{number}", KEY)
        assert spec is not None
        assert spec.shape == array.shape
        np.testing.assert_array_equal(consumer.take(f"again{number}").array, array)
    wait_until(lambda: not node.is_looked_at)
    for number in range(4):
        producer.put(f"n{number}", np.zeros(64 * PAGE, np.uint8), key=f"{KEY}{number}")
        consumer.take(f"n{number}")
        wait_until(lambda: not node.is_looked_at)
    assert producer.adopt("late", KEY) is None
    assert producer.adopt("last", f"{KEY}3") is not None


def test_a_client_that_closes_keeps_what_it_looks_at(node: Node) -> None:
    producer, consumer = node.client(), TensorClient(node.name, "consumer")
    array = numbers(100, 100)
    producer.put("it", array)
    taken = consumer.take("it")
    consumer.close()
    np.testing.assert_array_equal(taken.array, array)
    assert node.held_bytes
    with pytest.raises(TransferError):
        consumer.take("it")
    before = node.known_processes
    del taken
    wait_until(lambda: not node.held_bytes)
    wait_until(lambda: node.known_processes == before - 1)


def test_a_process_may_come_again_and_again(node: Node) -> None:
    """More often than a sidecar has processes at once, with a word and without one."""
    for _ in range(300):
        TensorClient(node.name, "executor").close()
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as silent:
            silent.connect(f"\0{node.name}")
    node.client().put("it", numbers(10))
    assert node.client().take("it").array.shape == (10,)


def test_links_may_be_encrypted(start: Nodes) -> None:
    node, other = (start(replace(SETTINGS, is_encrypted=True)) for _ in range(2))
    array = numbers(200, 500)
    producer = node.client()
    producer.put("it", array)
    np.testing.assert_array_equal(other.client().take("it", producer.address).array, array)
    stranger = SidecarAddress(producer.address.host, producer.address.port, b"x" * 32, is_encrypted=True)
    with pytest.raises(TransferError):
        other.client().take("it", stranger, wait_s=1.0)


def test_the_token_of_an_address_is_not_shown(node: Node) -> None:
    address = node.client().address
    assert str(address.token) not in repr(address)
    assert address.token.hex() not in repr(address)
