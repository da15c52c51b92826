"""Reads tensors of a checkpoint into the engine's data type and device."""

from dataclasses import dataclass

import torch

from agents.engines.torch_engine.linear import Linear
from agents.engines.torch_engine.norm import RmsNorm
from agents.weights.checkpoint import Checkpoint
from agents.weights.errors import WeightsError


@dataclass(frozen=True, slots=True)
class LayerReader:
    """`prefix` is put before every name."""

    checkpoint: Checkpoint
    prefix: str
    dtype: torch.dtype
    device: torch.device

    def under(self, part: str) -> "LayerReader":
        return LayerReader(self.checkpoint, self.prefix + part, self.dtype, self.device)

    def tensor(self, name: str, shape: tuple[int, ...]) -> torch.Tensor:
        """A copy, so that the mapped file can be let go. Raises WeightsError where the shape is another."""
        return self.stored(name, shape).to(device=self.device, dtype=self.dtype, copy=True)

    def stored(self, name: str, shape: tuple[int, ...]) -> torch.Tensor:
        """As the checkpoint has it."""
        read = self.checkpoint.read(self.prefix + name)
        if tuple(read.shape) != shape:
            raise WeightsError(
                f"tensor {self.prefix + name!r} has shape {tuple(read.shape)}, config.json says {shape}: the files are "
                f"not of one model, or damaged; fetch them again"
            )
        return read

    def joined(self, names: tuple[str, ...], rows: tuple[int, ...], columns: int, bias: bool) -> Linear:
        """Several projections of the same input as one, their rows one below the other."""
        weight = torch.empty(sum(rows), columns, dtype=self.dtype, device=self.device)
        offsets = torch.empty(sum(rows), dtype=self.dtype, device=self.device) if bias else None
        at = 0
        for name, count in zip(names, rows, strict=True):
            weight[at : at + count] = self.stored(f"{name}.weight", (count, columns))
            if offsets is not None:
                offsets[at : at + count] = self.stored(f"{name}.bias", (count,))
            at += count
        return Linear(weight, offsets)

    def linear(self, name: str, rows: int, columns: int, bias: bool = False) -> Linear:
        return self.joined((name,), (rows,), columns, bias)

    def norm(self, name: str, size: int, epsilon: float, late_cast: bool) -> RmsNorm:
        return RmsNorm(self.tensor(f"{name}.weight", (size,)), epsilon, late_cast)
