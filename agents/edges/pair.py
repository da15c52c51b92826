"""A gloo group of two without a default world, since members come and go."""

import re
from datetime import timedelta
from typing import Any, Protocol

import torch
from torch.distributed import PrefixStore, ProcessGroupGloo, Store, Work  # type: ignore[attr-defined]

from agents.edges.errors import EdgeLostError

SENDER, RECEIVER = 0, 1

_PLACE = re.compile(r"^\[\S+:\d+\] ")


class Pair(Protocol):
    """What is used of a process group of two; torch's annotations leave it out."""

    def send(self, tensors: list[torch.Tensor], rank: int, tag: int) -> Work: ...

    def recv(self, tensors: list[torch.Tensor], rank: int, tag: int) -> Work: ...


def gloo_device(interface: str) -> Any:
    """Where groups are bound, with a thread of its own that moves their bytes."""
    return ProcessGroupGloo.create_device(hostname=interface)


def connect_pair(store: Store, name: str, rank: int, device: Any, timeout_s: float) -> Pair:
    """Waits for the other end. Raises EdgeLostError where it does not come."""
    options = ProcessGroupGloo._Options()  # type: ignore[attr-defined]
    options._devices = [device]
    options._timeout = timedelta(seconds=timeout_s)
    try:
        pair: Pair = ProcessGroupGloo(PrefixStore(name, store), rank, 2, options)  # type: ignore[assignment]
    except RuntimeError as error:
        raise EdgeLostError(f"the other end of {name} did not come: {first_line(error)}") from error
    return pair


def first_line(error: Exception) -> str:
    """What torch says happened, without the place in its sources and its advice."""
    line = str(error).partition("\n")[0]
    return _PLACE.sub("", line).partition(" This is typically caused")[0][:300]
