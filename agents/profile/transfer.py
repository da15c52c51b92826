"""Measures what it costs a node to send or take bytes between processes: rows of activations, and KV cache."""

import multiprocessing
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from multiprocessing.connection import Connection

import torch

from agents.edges.edge import connect_receiver, connect_sender
from agents.edges.settings import EdgeSettings
from agents.engines.kv_part import KvPart
from agents.hand_off.chunk import ACKNOWLEDGEMENT, ChunkHeader
from agents.hand_off.settings import HandOffSettings
from agents.transfer.rendezvous import Rendezvous, accept, connect, join

_BYTES = 96 << 20
_SEND_BYTES = 1 << 20
_BLOCK_BYTES = 16 << 10
"""Bytes of one layer's keys in a block: KV cache lies in blocks."""
_INTERFACE = "127.0.0.1"
_TIMEOUT_S = 60.0
_LINKS = HandOffSettings(_INTERFACE, stall_s=_TIMEOUT_S)


def edge_cpu_s_per_byte(hidden_size: int, dtype: torch.dtype) -> float:
    """Processor time of the end that needs more of it, for activations between stages."""
    settings, sends = _edge(hidden_size, dtype)
    sent_bytes = sends * settings.max_rows * hidden_size * dtype.itemsize
    return _cpu_s(_send_rows, _receive_rows, hidden_size, dtype) / sent_bytes


def hand_off_cpu_s_per_byte() -> float:
    """Processor time of the end that needs more of it, for KV cache between instances."""
    return _cpu_s(_send_chunks, _receive_chunks) / _BYTES


def _cpu_s(send: Callable[..., float], receive: Callable[..., float], *arguments: object) -> float:
    """Processor time of the end that needs more, as either says of itself; the receiver in a process of its own."""
    rendezvous = Rendezvous(_INTERFACE)
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe(duplex=False)
    receiver = spawn.Process(target=_alone, args=(theirs, receive, rendezvous.port, *arguments), daemon=True)
    receiver.start()
    sending = send(rendezvous.port, *arguments)
    receiving = float(ours.recv())
    receiver.join()
    rendezvous.close()
    return max(sending, receiving)


def _alone(out: "Connection[float, float]", receive: Callable[..., float], *arguments: object) -> None:
    torch.set_num_threads(1)
    out.send(receive(*arguments))


def _edge(hidden_size: int, dtype: torch.dtype) -> tuple[EdgeSettings, int]:
    """Return the settings of an edge, and how often its rows are sent."""
    rows = max(1, _SEND_BYTES // (hidden_size * dtype.itemsize))
    sends = _BYTES // (rows * hidden_size * dtype.itemsize)
    return EdgeSettings(hidden_size, dtype, rows, _TIMEOUT_S, _INTERFACE), sends


def _send_rows(port: int, hidden_size: int, dtype: torch.dtype) -> float:
    settings, sends = _edge(hidden_size, dtype)
    sender = connect_sender(join(_INTERFACE, port, _TIMEOUT_S), "transfer", settings)
    held = torch.zeros(settings.max_rows, hidden_size, dtype=dtype)
    start = time.process_time()
    for _ in range(sends):
        sender.send(held)
    sender.flush()
    return time.process_time() - start


def _receive_rows(port: int, hidden_size: int, dtype: torch.dtype) -> float:
    settings, sends = _edge(hidden_size, dtype)
    receiver = connect_receiver(join(_INTERFACE, port, _TIMEOUT_S), "transfer", settings)
    start = time.process_time()
    for _ in range(sends):
        receiver.receive(settings.max_rows)
    return time.process_time() - start


def _cache() -> Sequence[Sequence[memoryview]]:
    """Chunks, each in blocks."""
    whole, chunk = torch.zeros(_BYTES, dtype=torch.uint8).numpy().data, _LINKS.chunk_bytes
    starts = range(0, _BYTES, chunk)
    return [[whole[a : a + _BLOCK_BYTES] for a in range(start, start + chunk, _BLOCK_BYTES)] for start in starts]


def _send_chunks(port: int) -> float:
    cache, end = _cache(), connect("transfer", (_INTERFACE, port), _LINKS.stall_s)
    start = time.process_time()
    for number, blocks in enumerate(cache):
        header = ChunkHeader(0, number, False, KvPart(0, 1, 0, 1, 0, 1))
        end.send_piece(header.packed(), _LINKS.chunk_bytes, lambda blocks=blocks: nullcontext(blocks))  # type: ignore[misc]
    took_s = time.process_time() - start
    end.receive(ACKNOWLEDGEMENT.size)
    end.close()
    return took_s


def _receive_chunks(port: int) -> float:
    cache, end = _cache(), accept("transfer", (_INTERFACE, port), _INTERFACE, _LINKS.stall_s)
    start = time.process_time()
    for blocks in cache:
        ChunkHeader.receive(end)
        end.receive_piece(_LINKS.chunk_bytes, lambda blocks=blocks: nullcontext(blocks))  # type: ignore[misc]
    took_s = time.process_time() - start
    end.send(ACKNOWLEDGEMENT.pack(0, 0, True))
    end.close()
    return took_s
