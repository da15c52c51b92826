"""Measures what lies between two processes: rows of activations as stages send them, and pieces of KV caches.

Both ends call the same function, at the same rendezvous; the end that takes everything in knows what it took.
"""

import time
from contextlib import closing, nullcontext
from dataclasses import dataclass

import torch

from agents.edges.edge import Receiver, Sender, connect_receiver, connect_sender
from agents.edges.settings import EdgeSettings
from agents.hand_off.settings import HandOffSettings
from agents.transfer.rendezvous import accept, connect, join
from templates_lib.values.pair_cost import HopTime, PairCost

ROWS = (1, 64, 2048)
"""Of a step: a request that decodes, a batch of them, a prompt."""
ROUNDS = 50
_KV_PIECES = 128
_NAME = "pair"
_BEGIN = b"piece of kv cache"


@dataclass(frozen=True, slots=True)
class PairEnd:
    at: tuple[str, int]
    """Host and port of the rendezvous (`agents.transfer.rendezvous`)."""
    sends: bool
    """Whether this end sends, else it takes."""
    hidden_size: int
    dtype: torch.dtype
    device: torch.device
    interface: str = "127.0.0.1"
    """Address of this end's machine, on which it listens."""
    patience_s: float = 60.0
    """How long the other end may keep this one waiting."""


def measure_pair(end: PairEnd) -> PairCost | None:
    """Return what was measured where this end takes; None where it sends. Raises LinkLostError where the other end does
    not come, or goes."""
    settings = EdgeSettings(
        end.hidden_size, end.dtype, max(ROWS), end.patience_s, end.interface, end.device, end.device.type == "cuda"
    )
    store = join(*end.at, end.patience_s)
    if end.sends:
        _send(connect_sender(store, _NAME, settings), settings)
        _send_kv(end)
        return None
    hops, way = _take(connect_receiver(store, _NAME, settings), settings)
    return PairCost(hops, way, _take_kv(end))


def _send(sender: Sender, settings: EdgeSettings) -> None:
    for rows in ROWS:
        sent = torch.zeros(rows, settings.hidden_size, dtype=settings.dtype, device=settings.device)
        for _ in range(ROUNDS):
            sender.send(sent)
        sender.flush()


def _take(receiver: Receiver, settings: EdgeSettings) -> tuple[tuple[HopTime, ...], str]:
    found, got = [], torch.empty(0)
    for rows in ROWS:
        receiver.receive(rows)  # the first waits for the other end
        start = time.perf_counter()
        for _ in range(ROUNDS - 1):
            got = receiver.receive(rows)
        if settings.device.type == "cuda":
            torch.cuda.synchronize(settings.device)
        found.append(HopTime(rows, (time.perf_counter() - start) / (ROUNDS - 1)))
    return tuple(found), "NCCL" if got.device.type == "cuda" else "gloo"


def _send_kv(end: PairEnd) -> None:
    size = HandOffSettings().chunk_bytes
    cache = memoryview(bytearray(size))
    with closing(connect(_NAME, end.at, end.patience_s)) as link:
        for _ in range(_KV_PIECES):
            link.send_piece(_BEGIN, size, lambda: nullcontext([cache]))
        link.receive(1)


def _take_kv(end: PairEnd) -> float:
    size = HandOffSettings().chunk_bytes
    cache = memoryview(bytearray(size))
    with closing(accept(_NAME, end.at, end.interface, end.patience_s)) as link:
        link.receive(len(_BEGIN))
        link.receive_piece(size, lambda: nullcontext([cache]))
        start = time.perf_counter()
        for _ in range(_KV_PIECES - 1):
            link.receive(len(_BEGIN))
            link.receive_piece(size, lambda: nullcontext([cache]))
        seconds = time.perf_counter() - start
        link.send(b"\1")
    return (_KV_PIECES - 1) * size / seconds
