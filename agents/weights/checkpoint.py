"""Weights of one model, read tensor by tensor."""

from collections.abc import Collection
from pathlib import Path
from typing import Any, Protocol

import torch


class Checkpoint(Protocol):
    """Opening one reads descriptions only; a tensor's bytes are touched when it is read."""

    @property
    def path(self) -> Path:
        """The file, or folder, that it is."""

    @property
    def config(self) -> dict[str, Any]:
        """The model's description, in the words of a Hugging Face config.json."""

    @property
    def names(self) -> Collection[str]:
        """Names of the tensors, as Hugging Face publishes them (`model.layers.0.self_attn.q_proj.weight`)."""

    def stored_bytes(self, name: str) -> int:
        """Size of a tensor as stored."""

    def shape(self, name: str) -> tuple[int, ...]:
        """Rows first, known without reading the tensor. Raises MissingWeightsError where there is no such tensor."""

    def read(self, name: str) -> torch.Tensor:
        """The tensor on the CPU: as stored, or dequantised to fp32 where the storage is a block format.

        May share memory with the mapped file: do not write to it. Raises MissingWeightsError where there is no such
        tensor, CorruptWeightsError with the file's name where its bytes are not what was published.
        """

    def read_rows(self, name: str, rows: torch.Tensor) -> torch.Tensor:
        """The rows of a matrix that `rows` (n,) numbers, as `read` has them: nothing else of it is touched. Whoever has
        to be sure of them reads the whole before, which is what proves its bytes."""
