"""Links between sidecars: cut ones go on, and what does not belong there is an error of the link, not of the node."""

import os
import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import msgspec
import numpy as np
import pytest

from agents.messages.tensor_spec import TensorSpec
from agents.messages.to_sidecar import MAX_MESSAGE_BYTES, SidecarAddress, Take
from agents.messages.to_tensor_client import LinkReply
from agents.tensors.puller import dial
from agents.transfer.errors import BadPieceError, BlobGoneError, LinkLostError, TransferError
from agents.transfer.framed_link import FramedLink
from agents.transfer.meeting import LinkListener
from tests.agents.tensors.nodes import IMPATIENT, PAGE, PATIENCE_S, Node, wait_until

Nodes = Callable[..., Node]
encode = msgspec.msgpack.encode


class Relay:
    """Passes bytes on between two sidecars, and cuts each link behind a number of bytes to the consumer's."""

    def __init__(self, source: SidecarAddress, cuts: list[int]) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = SidecarAddress("127.0.0.1", self._listening.getsockname()[1], source.token)
        self._target = (source.host, source.port)
        self._cuts = cuts
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
def relay(source: SidecarAddress, cuts: list[int]) -> Iterator[Relay]:
    made = Relay(source, cuts)
    yield made
    made.close()


@pytest.mark.parametrize("is_stream", [False, True])
def test_a_link_that_is_cut_goes_on_where_it_was(node: Node, other: Node, is_stream: bool) -> None:
    """In the middle of a header, of a message and of a chunk, and again and again."""
    array = np.random.default_rng(0).integers(0, 255, 100 * PAGE, np.uint8)
    producer, consumer = node.client(), other.client()
    if is_stream:
        with producer.stream("it", "uint8", ()) as writer:
            writer.write(array)
    else:
        producer.put("it", array)
    cuts = [1, 12, 40, 500, 70_000, 100_000]
    with relay(producer.address, cuts) as between:
        if is_stream:
            came = np.concatenate([part.array for part in consumer.take_stream("it", between.address)])
        else:
            came = consumer.take("it", between.address).array
        np.testing.assert_array_equal(came, array)
        assert between.links == len(cuts) + 1
    wait_until(lambda: not node.held_bytes and not node.tensors)


def test_a_link_that_stays_cut_is_given_up_by_both_ends(start: Nodes) -> None:
    node, other = (start(IMPATIENT) for _ in range(2))
    producer = node.client()
    producer.put("it", np.zeros(100 * PAGE, np.uint8))
    with relay(producer.address, [100_000, *[0] * 10_000]) as between, pytest.raises(LinkLostError):
        other.client().take("it", between.address)
    wait_until(lambda: not node.held_bytes and not node.tensors)
    wait_until(lambda: not other.held_bytes and not other.tensors)


@contextmanager
def another_sidecar(answer: Callable[[Take, FramedLink], None], spec: TensorSpec) -> Iterator[SidecarAddress]:
    """One that says what a tensor is, and then sends what it likes."""
    listener = LinkListener("127.0.0.1")

    def serve() -> None:
        with suppress(OSError, TransferError):
            while (end := listener.admit(listener.listening.accept()[0], PATIENCE_S)) is not None:
                frames = FramedLink(end, MAX_MESSAGE_BYTES)
                frames.receive()
                frames.receive_piece(0, None)
                frames.send(encode(LinkReply("spec", spec=spec, chunk_bytes=16 * PAGE)))
                with suppress(TransferError):
                    while True:
                        asked = msgspec.msgpack.decode(frames.receive()[0], type=Take)
                        frames.receive_piece(0, None)
                        answer(asked, frames)
                end.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    at = listener.address
    yield SidecarAddress(at.host, at.port, at.token)
    listener.listening.shutdown(socket.SHUT_RDWR)
    listener.listening.close()
    thread.join(PATIENCE_S)


def send_chunk(size: int) -> Callable[[Take, FramedLink], None]:
    return lambda _, frames: frames.send(encode(LinkReply("chunk")), (memoryview(bytes(size)),))


@pytest.mark.parametrize(
    ("spec", "size"),
    [
        (TensorSpec("uint8", (10,)), 11),
        (TensorSpec("uint8", (10,)), 9),
        (TensorSpec("uint8", (10,)), 0),
        (TensorSpec("uint8", (10,)), 1 << 20),
        (TensorSpec("uint8", (3,), True), 4),
        (TensorSpec("uint8", (3,), True), 16 * PAGE + 1),
    ],
)
def test_a_chunk_of_another_size_is_an_error_of_the_link(node: Node, spec: TensorSpec, size: int) -> None:
    client = node.client()
    with another_sidecar(send_chunk(size), spec) as address, pytest.raises(BadPieceError):
        list(client.take_stream("it", address)) if spec.is_stream else client.take("it", address)
    wait_until(lambda: not node.held_bytes and not node.tensors)


def test_what_another_sidecar_says_is_not_believed(node: Node) -> None:
    client = node.client()
    for number, nonsense in enumerate((b"", b"nonsense", encode(LinkReply("spec")), b"\xff" * 100)):
        with (
            another_sidecar(lambda _, frames: frames.send(nonsense), TensorSpec("uint8", (10,))) as address,  # noqa: B023
            pytest.raises(BadPieceError),
        ):
            client.take(f"it{number}", address)
    with (
        another_sidecar(send_chunk(0), TensorSpec("float64", (1 << 40, 1 << 40))) as address,
        pytest.raises(TransferError),
    ):
        client.take("huge", address)
    with (
        another_sidecar(lambda _, frames: frames.send(encode(LinkReply("gone"))), TensorSpec("bool", (1,))) as address,
        pytest.raises(BlobGoneError),
    ):
        client.take("gone", address)
    wait_until(lambda: not node.held_bytes and not node.tensors)


@pytest.mark.parametrize("nonsense", [b"", b"nonsense", b"\xff" * 100, bytes(9000)])
def test_nonsense_ends_a_connection_and_nothing_else(node: Node, other: Node, nonsense: bytes) -> None:
    producer = node.client()
    producer.put("it", np.arange(10), consumers=2)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stranger:
        stranger.connect(f"\0{node.name}")
        stranger.settimeout(PATIENCE_S)
        socket.send_fds(stranger, [nonsense or b"x"], [0, 1])
        assert stranger.recv(1) == b""
    address = producer.address
    for token in (b"\0" * 32, address.token):
        with socket.create_connection((address.host, address.port), PATIENCE_S) as stranger, suppress(OSError):
            stranger.sendall(token + nonsense)
            stranger.shutdown(socket.SHUT_WR)
            assert stranger.recv(1) == b""
    for client, source in ((node.client(), None), (other.client(), address)):
        assert list(client.take("it", source).array) == list(range(10))


def test_links_that_hang_up_leave_no_descriptor(node: Node) -> None:
    address = node.client().address
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        link = dial(address, PATIENCE_S)
        link.send(encode(Take("nothing", "0" * 32, 0, 0)))
        assert msgspec.msgpack.decode(link.receive()[0], type=LinkReply).answer == "gone"
        link.close()
    wait_until(lambda: len(os.listdir("/proc/self/fd")) <= before)


def test_a_sidecar_of_which_nothing_is_known_is_out_of_reach(start: Nodes) -> None:
    node = start(IMPATIENT)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = SidecarAddress("127.0.0.1", silent.getsockname()[1], b"x" * 32)
    with pytest.raises(LinkLostError):
        node.client().take("it", address)
    with pytest.raises(LinkLostError):
        node.client().push("it", address)
