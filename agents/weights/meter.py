"""Counts what is read of a checkpoint, and how fast."""

import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from agents.weights.checkpoint import Checkpoint


@dataclass(frozen=True, slots=True)
class Reading:
    """Bytes and time read so far."""

    names: tuple[str, ...]
    stored_bytes: int
    seconds: float
    """Inside `read`: file, checksum and dequantisation, without what the caller does with a tensor."""

    @property
    def bytes_per_s(self) -> float:
        return self.stored_bytes / self.seconds if self.seconds > 0 else 0.0


class MeteredCheckpoint:
    """A checkpoint that remembers which tensors were read: the measured load rate, and the proof that a node reads
    nothing it does not hold."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self._names: list[str] = []
        self._bytes = 0
        self._seconds = 0.0

    @property
    def reading(self) -> Reading:
        return Reading(tuple(self._names), self._bytes, self._seconds)

    @property
    def path(self) -> Path:
        return self._checkpoint.path

    @property
    def config(self) -> dict[str, Any]:
        return self._checkpoint.config

    @property
    def names(self) -> Collection[str]:
        return self._checkpoint.names

    def stored_bytes(self, name: str) -> int:
        return self._checkpoint.stored_bytes(name)

    def shape(self, name: str) -> tuple[int, ...]:
        return self._checkpoint.shape(name)

    def read(self, name: str) -> torch.Tensor:
        start = time.perf_counter()
        tensor = self._checkpoint.read(name)
        self._seconds += time.perf_counter() - start
        self._names.append(name)
        self._bytes += self._checkpoint.stored_bytes(name)
        return tensor

    def read_rows(self, name: str, rows: torch.Tensor) -> torch.Tensor:
        """Not counted: rows are looked up while the model serves, not while it loads."""
        return self._checkpoint.read_rows(name, rows)
