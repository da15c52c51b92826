"""A part of a checkpoint as a checkpoint of its own: one component of a model of several."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch

from agents.weights.checkpoint import Checkpoint
from agents.weights.errors import MissingWeightsError, nearest


class PartOfCheckpoint:
    """Tensors under names of the part's own; nothing else of the checkpoint is read."""

    def __init__(self, checkpoint: Checkpoint, config: dict[str, Any], stored: Mapping[str, str]) -> None:
        """`stored`: name in the part → name in `checkpoint`; `config`: the part's."""
        self._checkpoint = checkpoint
        self._config = config
        self._stored = dict(stored)

    @property
    def path(self) -> Path:
        return self._checkpoint.path

    @property
    def config(self) -> dict[str, Any]:
        return self._config

    @property
    def names(self) -> Collection[str]:
        return self._stored.keys()

    def stored_bytes(self, name: str) -> int:
        return self._checkpoint.stored_bytes(self._name(name))

    def shape(self, name: str) -> tuple[int, ...]:
        return self._checkpoint.shape(self._name(name))

    def read(self, name: str) -> torch.Tensor:
        return self._checkpoint.read(self._name(name))

    def read_rows(self, name: str, rows: torch.Tensor) -> torch.Tensor:
        return self._checkpoint.read_rows(self._name(name), rows)

    def _name(self, name: str) -> str:
        if name not in self._stored:
            raise MissingWeightsError(
                f"{self._checkpoint.path} has no tensor {name!r} of this part{nearest(name, self._stored)}"
            )
        return self._stored[name]


def without_prefix(names: Collection[str], *prefixes: str) -> dict[str, str]:
    """Name without the first of the prefixes that it has → name, for those that have one."""
    found: dict[str, str] = {}
    for name in names:
        prefix = next((each for each in prefixes if name.startswith(each)), None)
        if prefix is not None:
            found[name.removeprefix(prefix)] = name
    return found
