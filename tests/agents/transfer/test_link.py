"""Pieces go from scattered memory into scattered memory, and nobody waits while he holds on to either."""

import socket
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress

import numpy as np
import pytest

from agents.transfer.errors import BlobGoneError, LinkLostError
from agents.transfer.link import LinkEnd
from agents.transfer.rendezvous import Rendezvous, accept, connect, join

INTERFACE, STALL_S = "127.0.0.1", 20.0
HEADER = b"header"
MORE_THAN_A_CONNECTION_TAKES = 64 << 20
PATIENCE_S = 60


@pytest.fixture
def rendezvous() -> Iterator[tuple[str, int]]:
    made = Rendezvous(INTERFACE)
    yield made.host, made.port
    made.close()


@contextmanager
def link(at: tuple[str, int]) -> Iterator[tuple[LinkEnd, LinkEnd]]:
    """(sending end, receiving end)"""
    with ThreadPoolExecutor(1) as thread:
        accepted = thread.submit(accept, "L 1", at, INTERFACE, STALL_S)
        sending = connect("L 1", at, STALL_S)
        receiving = accepted.result(PATIENCE_S)
    yield sending, receiving
    sending.close()
    receiving.close()


class Owned:
    """Memory that goes to another request once it was used so many times."""

    def __init__(self, pieces: Sequence[memoryview], uses: int) -> None:
        self._pieces = pieces
        self._uses = uses

    @contextmanager
    def __call__(self) -> Iterator[Sequence[memoryview]]:
        if not self._uses:
            raise BlobGoneError("freed")
        self._uses -= 1
        yield self._pieces


def cut(memory: np.ndarray, *, of: int) -> list[memoryview]:
    return [piece.data for piece in np.array_split(memory, of)]


def test_pieces_of_all_sizes_arrive_in_pieces_of_other_sizes(rendezvous: tuple[str, int]) -> None:
    sent = np.random.default_rng(1).integers(0, 256, 3_000_001, np.uint8)
    got = np.zeros_like(sent)
    sources, targets = cut(sent, of=2711), cut(got, of=1999)
    with link(rendezvous) as (sending, receiving), ThreadPoolExecutor(1) as thread:
        whole = thread.submit(sending.send_piece, HEADER, len(sent), lambda: nullcontext(sources))
        assert receiving.receive(len(HEADER), is_due=False) == HEADER
        assert receiving.receive_piece(len(sent), lambda: nullcontext(targets))
        assert whole.result(PATIENCE_S)
        receiving.send(b"answer")
        assert sending.receive(6) == b"answer"
    assert np.array_equal(sent, got)


def test_a_piece_whose_request_is_freed_while_it_is_sent_is_void(rendezvous: tuple[str, int]) -> None:
    size = MORE_THAN_A_CONNECTION_TAKES
    memory = np.ones(size, np.uint8)
    with link(rendezvous) as (sending, receiving), ThreadPoolExecutor(1) as thread:
        with pytest.raises(BlobGoneError):
            sending.send_piece(HEADER, size, Owned((memory.data,), 0))
        first = thread.submit(sending.send_piece, HEADER, size, Owned((memory.data,), 1))
        assert receiving.receive(len(HEADER), is_due=False) == HEADER, "of what was freed before, nothing came"
        assert not receiving.receive_piece(size, lambda: nullcontext((np.zeros_like(memory).data,)))
        assert not first.result(PATIENCE_S)
        second = thread.submit(sending.send_piece, HEADER, 3, lambda: nullcontext((memory[:3].data,)))
        assert receiving.receive(len(HEADER), is_due=False) == HEADER
        assert receiving.receive_piece(3, lambda: nullcontext((np.zeros(3, np.uint8).data,)))
        assert second.result(PATIENCE_S)


@pytest.mark.parametrize("uses", [None, 0, 1])
def test_a_piece_that_nobody_wants_is_passed_over(rendezvous: tuple[str, int], uses: int | None) -> None:
    """Or whose memory goes to another request: not one byte more is written there."""
    size = MORE_THAN_A_CONNECTION_TAKES
    sent, got = np.ones(size, np.uint8), np.zeros(size, np.uint8)
    memory = None if uses is None else Owned((got.data,), uses)
    with link(rendezvous) as (sending, receiving), ThreadPoolExecutor(1) as thread:
        for wanted in (memory, lambda: nullcontext((got.data,))):
            whole = thread.submit(sending.send_piece, HEADER, size, lambda: nullcontext((sent.data,)))
            assert receiving.receive(len(HEADER), is_due=False) == HEADER
            assert receiving.receive_piece(size, wanted) == (wanted is not memory)
            assert whole.result(PATIENCE_S)
            assert got.all() == (wanted is not memory)


def test_memory_is_let_go_while_the_other_end_takes_nothing(rendezvous: tuple[str, int]) -> None:
    holding = threading.Lock()
    memory = np.ones(MORE_THAN_A_CONNECTION_TAKES, np.uint8)

    @contextmanager
    def held() -> Iterator[Sequence[memoryview]]:
        with holding:
            yield (memory.data,)

    with link(rendezvous) as (sending, _):
        sending.stall_s, wait = 1.0, sending._wait
        waited: list[bool] = []

        def watched(event: int, timeout_s: float | None) -> None:
            waited.append(holding.locked())
            wait(event, timeout_s)

        sending._wait = watched  # type: ignore[method-assign]
        with pytest.raises(LinkLostError, match="nothing for 1 s"):
            sending.send_piece(HEADER, len(memory), held)
    assert waited
    assert not any(waited), "it is held for as long as the end waits"


def test_whoever_waits_is_told_when_somebody_hangs_up(rendezvous: tuple[str, int]) -> None:
    with link(rendezvous) as (sending, receiving), ThreadPoolExecutor(2) as threads:
        idle, due = threads.submit(receiving.receive, 1, is_due=False), threads.submit(sending.receive, 1)
        receiving.hang_up()
        for waiting in (idle, due):
            with pytest.raises(LinkLostError, match="closed"):
                waiting.result(PATIENCE_S)
        receiving.hang_up()  # again does no harm


def test_strangers_do_not_get_in(rendezvous: tuple[str, int]) -> None:
    with ThreadPoolExecutor(1) as thread:
        accepted = thread.submit(accept, "L 1", rendezvous, INTERFACE, STALL_S)
        store = join(*rendezvous, PATIENCE_S)
        host, port, token = store.get("L 1").decode().split(" ")
        silent = socket.create_connection((host, int(port)), PATIENCE_S)
        for said in (b"", b"\0" * 32, bytes.fromhex(token)[:-1] + b"\0", bytes.fromhex(token)[:31]):
            with socket.create_connection((host, int(port)), PATIENCE_S) as stranger, suppress(OSError):
                stranger.sendall(said)
                stranger.shutdown(socket.SHUT_WR)
                assert stranger.recv(1) == b"", "it is hung up on"
        assert not accepted.done()
        sending = connect("L 1", rendezvous, STALL_S)
        receiving = accepted.result(PATIENCE_S)
    receiving.send(b"answer")
    assert sending.receive(6) == b"answer"
    silent.close()
    sending.close()
    receiving.close()


def test_an_end_that_is_alone_gives_up(rendezvous: tuple[str, int]) -> None:
    ends = (lambda: accept("L 1", rendezvous, INTERFACE, 0.3), lambda: connect("L 1", rendezvous, 0.3))
    for end in ends:
        began_s = time.monotonic()
        with pytest.raises(LinkLostError):
            end()
        assert time.monotonic() - began_s < PATIENCE_S
    with pytest.raises(LinkLostError, match="no rendezvous"):
        accept("L 1", (INTERFACE, 1), INTERFACE, 0.3)
