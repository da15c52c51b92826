"""A request's KV cache in host memory, of one process or of all processes of an engine."""

import mmap
import os
from typing import Any

import torch

from agents.transfer.memory import Segment
from agents.vllm_engine.exchange import KvFacts


class HostKv:
    """All layers and heads of a request. Where the memory is shared, it is pickled as the place where it lies: ranks
    write and read their own layers and heads there, and nothing is left of it when its processes end."""

    def __init__(self, tensor: torch.Tensor, segment: Segment | None = None) -> None:
        """`tensor`: (2, layers, tokens, KV heads, head_dim), keys and values. `segment`: whose memory it is, if any."""
        self.tensor = tensor
        self._segment = segment

    @property
    def tokens(self) -> int:
        return self.tensor.shape[2]

    def __reduce__(self) -> tuple[Any, ...]:
        """Raises TypeError for memory that no other process sees."""
        if self._segment is None:
            raise TypeError("this KV cache lies in memory of one process")
        place = f"/proc/{os.getpid()}/fd/{self._segment.descriptor}"
        return _opened, (place, tuple(self.tensor.shape), self.tensor.dtype)


def empty_kv(facts: KvFacts, tokens: int) -> HostKv:
    """Make room for the KV cache of so many tokens. Raises RuntimeError or OSError where the host has none."""
    shape = (2, len(facts.windows), tokens, facts.kv_heads, facts.head_dim)
    dtype = getattr(torch, facts.dtype.removeprefix("torch."))
    if not facts.is_shared:
        return HostKv(torch.empty(shape, dtype=dtype, pin_memory=facts.is_pinned))
    size = torch.Size(shape).numel() * dtype.itemsize
    segment = Segment.allocate(size)
    os.posix_fallocate(segment.descriptor, 0, size)  # an error here, and not a signal while it is written
    return HostKv(_mapped(segment.descriptor, shape, dtype), segment)


def _opened(place: str, shape: tuple[int, ...], dtype: torch.dtype) -> HostKv:
    """Open memory that another process holds. Raises OSError once that is gone."""
    with open(place, "r+b") as opened:
        return HostKv(_mapped(opened.fileno(), shape, dtype))


def _mapped(descriptor: int, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    return torch.frombuffer(mmap.mmap(descriptor, 0), dtype=dtype).view(shape)
