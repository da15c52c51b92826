"""A gloo group of two without a default world, since members come and go."""

from datetime import timedelta
from typing import Any, Protocol

import torch
from torch.distributed import PrefixStore, ProcessGroupGloo, Store, Work  # type: ignore[attr-defined]

from agents.transfer.errors import LinkLostError
from agents.transfer.rendezvous import first_line

SENDER, RECEIVER = 0, 1


class Pair(Protocol):
    """Names what is used of a process group of two; torch's annotations leave it out."""

    def send(self, tensors: list[torch.Tensor], rank: int, tag: int) -> Work: ...

    def recv(self, tensors: list[torch.Tensor], rank: int, tag: int) -> Work: ...


def gloo_device(interface: str) -> Any:
    """A device that groups are bound to, with a thread of its own that moves their bytes."""
    return ProcessGroupGloo.create_device(hostname=interface)


def connect_pair(store: Store, name: str, rank: int, device: Any, timeout_s: float) -> Pair:
    """Waits for the other end. Raises LinkLostError where it does not come."""
    options = ProcessGroupGloo._Options()  # type: ignore[attr-defined]
    options._devices = [device]
    options._timeout = timedelta(seconds=timeout_s)
    try:
        pair: Pair = ProcessGroupGloo(PrefixStore(name, store), rank, 2, options)  # type: ignore[assignment]
    except RuntimeError as error:
        raise LinkLostError(f"the other end of {name} did not come: {first_line(error)}") from error
    return pair
