"""What tells weights apart, whatever their model is called and wherever they lie."""

import hashlib
import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch

from agents.weights.checkpoint import Checkpoint


class FingerprintedCheckpoint:
    """A checkpoint that hashes what is read of it: its config, then each tensor in the order of reading."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self._hash = hashlib.blake2b(digest_size=32)
        self._hash.update(json.dumps(checkpoint.config, sort_keys=True, default=str).encode())

    @property
    def fingerprint(self) -> str:
        return self._hash.hexdigest()

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
        tensor = self._checkpoint.read(name)
        self._hash.update(f"\0{name} {tensor.dtype} {tuple(tensor.shape)}\0".encode())
        self._hash.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)
        return tensor

    def read_rows(self, name: str, rows: torch.Tensor) -> torch.Tensor:
        """Not hashed: rows are looked up while the model serves."""
        return self._checkpoint.read_rows(name, rows)
