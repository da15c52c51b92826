"""One end of an edge as a process of its own: run as a module with what it should do."""

import sys
from typing import Any

import torch

from agents.edges.edge import connect_receiver, connect_sender
from agents.edges.settings import EdgeSettings
from agents.transfer.rendezvous import join

HIDDEN = 4
PATIENCE_S = 120.0
"""Of an end for the other, which is a process that loads torch first."""


def settings(timeout_s: float = PATIENCE_S, dtype: torch.dtype = torch.float32, **changes: Any) -> EdgeSettings:
    return EdgeSettings(HIDDEN, dtype, max_rows=1000, peer_timeout_s=timeout_s, **changes)


def receive(port: int, count: int) -> None:
    """Takes `count` rows, then stays until its input ends."""
    edge = connect_receiver(join("127.0.0.1", port, PATIENCE_S), "e", settings())
    for _ in range(count):
        edge.receive(1)
    print("received", flush=True)
    sys.stdin.read()


def send(port: int, count: int) -> None:
    """Gives `count` rows, then stays until its input ends."""
    edge = connect_sender(join("127.0.0.1", port, PATIENCE_S), "e", settings())
    for _ in range(count):
        edge.send(torch.zeros(1, HIDDEN))
    print("sent", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["receive", port, count]:
            receive(int(port), int(count))
        case ["send", port, count]:
            send(int(port), int(count))
