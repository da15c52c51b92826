"""Measures what it costs a node to send or take rows of activations."""

import multiprocessing
import time
from multiprocessing.connection import Connection

import torch

from agents.edges.edge import connect_receiver, connect_sender
from agents.edges.settings import EdgeSettings
from agents.transfer.rendezvous import Rendezvous, join

_BYTES = 96 << 20
_SEND_BYTES = 1 << 20
_INTERFACE = "127.0.0.1"
_TIMEOUT_S = 60.0


def edge_cpu_s_per_byte(hidden_size: int, dtype: torch.dtype) -> float:
    """Processor time of the end that needs more of it, for activations between stages, as either says of itself. The
    receiver is in a process of its own."""
    settings, sends = _edge(hidden_size, dtype)
    rendezvous = Rendezvous(_INTERFACE)
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe(duplex=False)
    receiver = spawn.Process(target=_receive_alone, args=(theirs, rendezvous.port, hidden_size, dtype), daemon=True)
    receiver.start()
    sending_s = _send_rows(rendezvous.port, hidden_size, dtype)
    receiving_s = float(ours.recv())
    receiver.join()
    rendezvous.close()
    return max(sending_s, receiving_s) / (sends * settings.max_rows * hidden_size * dtype.itemsize)


def _receive_alone(out: "Connection[float, float]", port: int, hidden_size: int, dtype: torch.dtype) -> None:
    torch.set_num_threads(1)
    out.send(_receive_rows(port, hidden_size, dtype))


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
