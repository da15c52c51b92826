"""Counts what is read of a checkpoint, and how fast."""

import time
from dataclasses import dataclass

import torch

from agents.weights.checkpoint import Checkpoint
from agents.weights.watched import WatchedCheckpoint


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


class MeteredCheckpoint(WatchedCheckpoint):
    """A checkpoint that remembers which tensors were read: the measured load rate, and the proof that a node reads
    nothing it does not hold."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        super().__init__(checkpoint)
        self._names: list[str] = []
        self._bytes = 0
        self._seconds = 0.0

    @property
    def reading(self) -> Reading:
        return Reading(tuple(self._names), self._bytes, self._seconds)

    def read(self, name: str) -> torch.Tensor:
        start = time.perf_counter()
        tensor = self._checkpoint.read(name)
        self._seconds += time.perf_counter() - start
        self._names.append(name)
        self._bytes += self._checkpoint.stored_bytes(name)
        return tensor
