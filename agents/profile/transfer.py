"""Measures what it costs a node to send or take bytes between processes, over the edges that activations take."""

import multiprocessing
import time
from multiprocessing.connection import Connection

import torch

from agents.edges.edge import connect_receiver, connect_sender
from agents.edges.rendezvous import Rendezvous, join
from agents.edges.settings import EdgeSettings

_BYTES = 96 << 20
_SEND_BYTES = 1 << 20
_INTERFACE = "127.0.0.1"
_TIMEOUT_S = 60.0


def transfer_cpu_s_per_byte(hidden_size: int, dtype: torch.dtype) -> float:
    """Processor time of the end that needs more of it."""
    rows = max(1, _SEND_BYTES // (hidden_size * dtype.itemsize))
    settings = EdgeSettings(hidden_size, dtype, rows, _TIMEOUT_S, _INTERFACE)
    sends = _BYTES // (rows * hidden_size * dtype.itemsize)
    rendezvous = Rendezvous(_INTERFACE)
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe(duplex=False)
    receiver = spawn.Process(target=_receive, args=(rendezvous.port, settings, sends, theirs), daemon=True)
    receiver.start()
    sender = connect_sender(join(_INTERFACE, rendezvous.port, _TIMEOUT_S), "transfer", settings)
    held = torch.zeros(rows, hidden_size, dtype=dtype)
    start = time.process_time()
    for _ in range(sends):
        sender.send(held)
    sender.flush()
    sending = time.process_time() - start
    receiving = float(ours.recv())
    receiver.join()
    rendezvous.close()
    return max(sending, receiving) / (sends * held.nbytes)


def _receive(port: int, settings: EdgeSettings, sends: int, out: "Connection[float, float]") -> None:
    torch.set_num_threads(1)
    receiver = connect_receiver(join(_INTERFACE, port, _TIMEOUT_S), "transfer", settings)
    start = time.process_time()
    for _ in range(sends):
        receiver.receive(settings.max_rows)
    out.send(time.process_time() - start)
