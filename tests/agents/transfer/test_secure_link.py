"""Links that leave a private network are encrypted, and lead to whom the secret was given to and nobody else."""

import socket
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress

import numpy as np
import pytest

from agents.transfer import secure_link
from agents.transfer.errors import BlobGoneError, LinkLostError
from agents.transfer.link import LinkEnd
from agents.transfer.meeting import LinkAddress, LinkListener

SECRET, STALL_S, PATIENCE_S = b"s" * 32, 20.0, 60
HEADER = b"header"


@contextmanager
def link(
    at: LinkListener, port: int = 0, secrets: tuple[bytes, bytes] = (SECRET, SECRET)
) -> Iterator[tuple[LinkEnd, LinkEnd]]:
    """(sending end, receiving end), which were given these secrets. `port`: somebody's in between."""
    address = LinkAddress(at.address.host, port or at.address.port, at.address.token)
    with ThreadPoolExecutor(1) as thread, at.listening as listening:
        listening.settimeout(STALL_S)
        accepted = thread.submit(lambda: at.admit(listening.accept()[0], STALL_S, secrets[1]))
        try:
            sending = address.connect(STALL_S, secrets[0])
        finally:
            receiving = accepted.result(PATIENCE_S)
    assert receiving is not None
    yield sending, receiving
    sending.close()
    receiving.close()


@pytest.fixture
def at() -> LinkListener:
    return LinkListener("127.0.0.1")


def relay(at: LinkListener, through: "type[Wire] | type[Between]") -> int:
    """Put somebody in between; return the port that leads there."""
    listening = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=through.serve, args=(listening, at.address.port), daemon=True).start()
    return int(listening.getsockname()[1])


class Wire:
    """What somebody sees who only listens."""

    seen = bytearray()

    @classmethod
    def serve(cls, listening: socket.socket, port: int) -> None:
        with suppress(OSError):
            here, there = listening.accept()[0], socket.create_connection(("127.0.0.1", port))
            threading.Thread(target=cls.pass_on, args=(there, here), daemon=True).start()
            cls.pass_on(here, there)

    @classmethod
    def pass_on(cls, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                cls.seen += data
                target.sendall(data)
            target.shutdown(socket.SHUT_RDWR)


class Between(Wire):
    """Somebody who speaks TLS to both ends, with a certificate of its own."""

    @classmethod
    def serve(cls, listening: socket.socket, port: int) -> None:
        with suppress(OSError):
            context, _ = secure_link._own_identity.__wrapped__()
            there = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            there.check_hostname, there.verify_mode = False, ssl.CERT_NONE
            one = context.wrap_socket(listening.accept()[0], server_side=True)
            other = there.wrap_socket(socket.create_connection(("127.0.0.1", port)))
            threading.Thread(target=cls.pass_on, args=(other, one), daemon=True).start()
            cls.pass_on(one, other)


def test_pieces_arrive_whole_and_nobody_on_the_way_reads_them(at: LinkListener) -> None:
    sent = np.frombuffer(b"the KV cache of a prompt " * 150_000, np.uint8)
    got = np.zeros_like(sent)
    sources = [piece.data for piece in np.array_split(sent, 71)]
    targets = [piece.data for piece in np.array_split(got, 53)]
    Wire.seen.clear()
    with link(at, relay(at, Wire)) as (sending, receiving), ThreadPoolExecutor(1) as thread:
        whole = thread.submit(sending.send_piece, HEADER, len(sent), lambda: nullcontext(sources))
        assert receiving.receive(len(HEADER), is_due=False) == HEADER
        assert receiving.receive_piece(len(sent), lambda: nullcontext(targets))
        assert whole.result(PATIENCE_S)
        receiving.send(b"answer")
        assert sending.receive(6) == b"answer"
    assert got.tobytes() == sent.tobytes()
    assert len(Wire.seen) > len(sent), "all of it went by"
    assert not any(word in Wire.seen for word in (b"KV cache", HEADER, b"answer", SECRET, at.address.token))


def test_memory_that_is_freed_amid_a_piece_makes_it_void(at: LinkListener) -> None:
    """The connection is full by then: what it holds of the piece stays as it was encrypted, and zeros follow."""
    piece = np.ones(32 << 20, np.uint8)
    uses = iter(range(3))

    @contextmanager
    def memory() -> Iterator[list[memoryview]]:
        if next(uses, None) is None:
            raise BlobGoneError("freed")
        yield [piece.data]

    with link(at) as (sending, receiving), ThreadPoolExecutor(1) as thread:
        whole = thread.submit(sending.send_piece, HEADER, len(piece), memory)
        assert receiving.receive(len(HEADER)) == HEADER
        assert not receiving.receive_piece(len(piece), None)
        assert not whole.result(PATIENCE_S)
        sending.send(b"next")
        assert receiving.receive(4) == b"next"


def test_an_end_that_waits_is_hung_up_from_another_thread(at: LinkListener) -> None:
    with link(at) as (sending, receiving), ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(receiving.receive, 1, is_due=False)
        receiving.hang_up()
        receiving.hang_up()
        with pytest.raises(LinkLostError):
            waiting.result(PATIENCE_S)
        with pytest.raises(LinkLostError):
            sending.receive(1)


@pytest.mark.parametrize("secrets", [(b"o" * 32, SECRET), (SECRET, b"o" * 32), (b"", SECRET)])
def test_who_was_not_given_the_secret_is_a_stranger(
    at: LinkListener, secrets: tuple[bytes, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agents.transfer.meeting._HANDSHAKE_S", 0.3)
    with pytest.raises((LinkLostError, AssertionError)), link(at, 0, secrets) as (sending, _):
        sending.receive(1)


def test_nobody_in_between_is_taken_for_the_other_end(at: LinkListener) -> None:
    with pytest.raises(LinkLostError), link(at, relay(at, Between)):
        pass
