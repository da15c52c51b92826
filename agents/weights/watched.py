"""A checkpoint that watches another being read."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch

from agents.weights.checkpoint import Checkpoint


class WatchedCheckpoint:
    """Says what the checkpoint says that it is made of; what watches overrides `read`.

    Rows are looked up while a model serves, not while it loads: they are not watched."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint

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
        return self._checkpoint.read(name)

    def read_rows(self, name: str, rows: torch.Tensor) -> torch.Tensor:
        return self._checkpoint.read_rows(name, rows)
