"""Chunks go from scattered memory into scattered memory, and nobody waits while he holds on to either."""

import socket
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress

import numpy as np
import pytest
import torch

from agents.edges.rendezvous import Rendezvous, join
from agents.engines.errors import UnknownRequestError
from agents.engines.kv_part import KvPart
from agents.hand_off.chunk import ChunkHeader
from agents.hand_off.link_end import LinkEnd, LinkLostError, accept, connect
from agents.hand_off.settings import HandOffSettings

SETTINGS = HandOffSettings(stall_s=20.0)
HEADER = ChunkHeader(3, 0, True, KvPart(0, 1, 0, 1, 0, 1))
MORE_THAN_A_CONNECTION_TAKES = 64 << 20
PATIENCE_S = 60


@pytest.fixture
def rendezvous() -> Iterator[tuple[str, int]]:
    made = Rendezvous("127.0.0.1")
    yield made.host, made.port
    made.close()


@contextmanager
def link(at: tuple[str, int], settings: HandOffSettings = SETTINGS) -> Iterator[tuple[LinkEnd, LinkEnd]]:
    """(sending end, receiving end)"""
    with ThreadPoolExecutor(1) as thread:
        accepted = thread.submit(accept, "L 1", at, settings)
        sending = connect("L 1", at, settings)
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
            raise UnknownRequestError("freed")
        self._uses -= 1
        yield self._pieces


def cut(memory: np.ndarray, *, of: int) -> list[memoryview]:
    return [piece.data for piece in np.array_split(memory, of)]


def test_pieces_of_all_sizes_arrive_in_pieces_of_other_sizes(rendezvous: tuple[str, int]) -> None:
    sent = np.random.default_rng(1).integers(0, 256, 3_000_001, np.uint8)
    got = np.zeros_like(sent)
    sources, targets = cut(sent, of=2711), cut(got, of=1999)
    with link(rendezvous) as (sending, receiving), ThreadPoolExecutor(1) as thread:
        whole = thread.submit(sending.send_chunk, HEADER, len(sent), lambda: nullcontext(sources))
        assert receiving.next_chunk() == HEADER
        assert receiving.receive_chunk(len(sent), lambda: nullcontext(targets))
        assert whole.result(PATIENCE_S)
        receiving.send_answer(3, 0, False)
        assert sending.next_answer() == (3, 0, False)
    assert np.array_equal(sent, got)


def test_a_chunk_whose_request_is_freed_while_it_is_sent_is_void(rendezvous: tuple[str, int]) -> None:
    size = MORE_THAN_A_CONNECTION_TAKES
    memory = np.ones(size, np.uint8)
    with link(rendezvous) as (sending, receiving), ThreadPoolExecutor(1) as thread:
        with pytest.raises(UnknownRequestError):
            sending.send_chunk(HEADER, size, Owned((memory.data,), 0))
        first = thread.submit(sending.send_chunk, HEADER, size, Owned((memory.data,), 1))
        assert receiving.next_chunk() == HEADER, "of what was freed before, nothing came"
        assert not receiving.receive_chunk(size, lambda: nullcontext((np.zeros_like(memory).data,)))
        assert not first.result(PATIENCE_S)
        second = thread.submit(sending.send_chunk, HEADER, 3, lambda: nullcontext((memory[:3].data,)))
        assert receiving.next_chunk() == HEADER
        assert receiving.receive_chunk(3, lambda: nullcontext((np.zeros(3, np.uint8).data,)))
        assert second.result(PATIENCE_S)


@pytest.mark.parametrize("uses", [None, 0, 1])
def test_a_chunk_that_nobody_wants_is_passed_over(rendezvous: tuple[str, int], uses: int | None) -> None:
    """Or whose memory goes to another request: not one byte more is written there."""
    size = MORE_THAN_A_CONNECTION_TAKES
    sent, got = np.ones(size, np.uint8), np.zeros(size, np.uint8)
    memory = None if uses is None else Owned((got.data,), uses)
    with link(rendezvous) as (sending, receiving), ThreadPoolExecutor(1) as thread:
        for wanted in (memory, lambda: nullcontext((got.data,))):
            whole = thread.submit(sending.send_chunk, HEADER, size, lambda: nullcontext((sent.data,)))
            assert receiving.next_chunk() == HEADER
            assert receiving.receive_chunk(size, wanted) == (wanted is not memory)
            assert whole.result(PATIENCE_S)
            assert got.all() == (wanted is not memory)


def test_memory_is_let_go_while_the_other_end_takes_nothing(rendezvous: tuple[str, int]) -> None:
    holding = threading.Lock()
    memory = np.ones(MORE_THAN_A_CONNECTION_TAKES, np.uint8)

    @contextmanager
    def held() -> Iterator[Sequence[memoryview]]:
        with holding:
            yield (memory.data,)

    settings = HandOffSettings(stall_s=1.0)
    with link(rendezvous, settings) as (sending, _), ThreadPoolExecutor(1) as thread:
        stalled = thread.submit(sending.send_chunk, HEADER, len(memory), held)
        while not stalled.done():
            assert holding.acquire(timeout=0.9), "it is held for as long as the end waits"
            holding.release()
        with pytest.raises(LinkLostError, match="nothing for 1 s"):
            stalled.result()


def test_whoever_waits_is_told_when_somebody_hangs_up(rendezvous: tuple[str, int]) -> None:
    with link(rendezvous) as (sending, receiving), ThreadPoolExecutor(2) as threads:
        idle, due = threads.submit(receiving.next_chunk), threads.submit(sending.next_answer)
        receiving.hang_up()
        for waiting in (idle, due):
            with pytest.raises(LinkLostError, match="closed"):
                waiting.result(PATIENCE_S)
        receiving.hang_up()  # again does no harm


def test_strangers_do_not_get_in(rendezvous: tuple[str, int]) -> None:
    with ThreadPoolExecutor(1) as thread:
        accepted = thread.submit(accept, "L 1", rendezvous, SETTINGS)
        store = join(*rendezvous, PATIENCE_S)
        host, port, token = store.get("kv L 1").decode().split(" ")
        silent = socket.create_connection((host, int(port)), PATIENCE_S)
        for said in (b"", b"\0" * 32, bytes.fromhex(token)[:-1] + b"\0", bytes.fromhex(token)[:31]):
            with socket.create_connection((host, int(port)), PATIENCE_S) as stranger, suppress(OSError):
                stranger.sendall(said)
                stranger.shutdown(socket.SHUT_WR)
                assert stranger.recv(1) == b"", "it is hung up on"
        assert not accepted.done()
        sending = connect("L 1", rendezvous, SETTINGS)
        receiving = accepted.result(PATIENCE_S)
    receiving.send_answer(1, 2, True)
    assert sending.next_answer() == (1, 2, True)
    silent.close()
    sending.close()
    receiving.close()


def test_an_end_that_is_alone_gives_up(rendezvous: tuple[str, int]) -> None:
    alone = HandOffSettings(stall_s=0.3)
    for end in (accept, connect):
        began_s = time.monotonic()
        with pytest.raises(LinkLostError):
            end("L 1", rendezvous, alone)
        assert time.monotonic() - began_s < PATIENCE_S
    with pytest.raises(LinkLostError, match="no rendezvous"):
        accept("L 1", ("127.0.0.1", 1), alone)


def test_what_is_no_header_is_refused() -> None:
    header = ChunkHeader(1 << 40, 2, False, KvPart(1, 2, 3, 4, 5, 6))
    assert ChunkHeader.of(header.packed()) == header
    assert header.part.kv_bytes(64, torch.bfloat16) == 2 * 2 * 6 * 4 * 64 * 2
