"""Reads tensors of a checkpoint into the engine's data type and device."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from agents.engines.torch_engine.linear import Linear, packed
from agents.engines.torch_engine.norm import RmsNorm
from agents.engines.torch_engine.shard import Shard
from agents.weights.checkpoint import Checkpoint
from agents.weights.errors import WeightsError


@dataclass(frozen=True, slots=True)
class LayerReader:
    """`prefix` is put before every name; of matrices that are cut, `shard`'s part is kept."""

    checkpoint: Checkpoint
    prefix: str
    shard: Shard
    dtype: torch.dtype
    device: torch.device

    @property
    def like(self) -> torch.Tensor:
        """Data type and device of what is read."""
        return torch.empty(0, dtype=self.dtype, device=self.device)

    def under(self, part: str) -> "LayerReader":
        return LayerReader(self.checkpoint, self.prefix + part, self.shard, self.dtype, self.device)

    def tensor(self, name: str, shape: tuple[int, ...]) -> torch.Tensor:
        """A copy, so that the mapped file can be let go. Raises WeightsError where the shape is another."""
        return self.stored(name, shape).to(device=self.device, dtype=self.dtype, copy=True)

    def stored(self, name: str, shape: tuple[int, ...]) -> torch.Tensor:
        """Read a tensor as the checkpoint has it. Raises WeightsError where its shape is not `shape`."""
        read = self.checkpoint.read(self.prefix + name)
        if tuple(read.shape) != shape:
            raise WeightsError(
                f"tensor {self.prefix + name!r} has shape {tuple(read.shape)}, config.json says {shape}: the files are "
                f"not of one model, or damaged; fetch them again"
            )
        return read

    def cut(self, rows: int) -> tuple[int, slice]:
        """Return the number of rows, and this shard's of them."""
        return rows, self.shard.span(rows)

    def into(
        self, names: tuple[str, ...], parts: tuple[tuple[int, slice], ...], columns: int, bias: bool = False
    ) -> Linear:
        """Projections of the same input into heads or width as one: the rows that are kept of each, one below the
        other. `parts`: rows of each, and which are kept. One name alone: the checkpoint has them below each other,
        too."""
        return packed(self.rows(names, parts, columns), self._rows(names, "bias", parts, ()) if bias else None)

    def rows(self, names: tuple[str, ...], parts: tuple[tuple[int, slice], ...], columns: int) -> torch.Tensor:
        """Return the weights of `into`."""
        return self._rows(names, "weight", parts, (columns,))

    def _rows(
        self, names: tuple[str, ...], kind: str, parts: tuple[tuple[int, slice], ...], columns: tuple[int, ...]
    ) -> torch.Tensor:
        held = sum(span.stop - span.start for _, span in parts)
        made = torch.empty(held, *columns, dtype=self.dtype, device=self.device)
        at = 0
        counts = tuple(count for count, _ in parts)
        for tensor, (_, span) in zip(self._below(names, kind, counts, columns), parts, strict=True):
            end = at + span.stop - span.start
            made[at:end] = tensor[span]
            at = end
        return made

    def _below(
        self, names: tuple[str, ...], kind: str, counts: tuple[int, ...], columns: tuple[int, ...]
    ) -> Iterator[torch.Tensor]:
        """Matrices of `counts` rows: a tensor each, or below each other in one."""
        if len(names) == 1:
            yield from torch.split(self.stored(f"{names[0]}.{kind}", (sum(counts), *columns)), list(counts))
        else:
            for name, count in zip(names, counts, strict=True):
                yield self.stored(f"{name}.{kind}", (count, *columns))

    def out_of(self, name: str, rows: int, columns: int, bias: bool = False) -> Linear:
        """A projection out of heads or width: this shard's columns; its output is summed over the shards."""
        offsets = self.tensor(f"{name}.bias", (rows,)) if bias and self.shard.adds_bias else None
        return packed(self.columns(name, rows, columns), offsets)

    def columns(self, name: str, rows: int, columns: int) -> torch.Tensor:
        """Return the weights of `out_of`."""
        weight = self.stored(f"{name}.weight", (rows, columns))[:, self.shard.span(columns)]
        return weight.to(device=self.device, dtype=self.dtype).clone(memory_format=torch.contiguous_format)

    def whole(self, name: str, rows: int, columns: int, bias: bool = False) -> Linear:
        """A projection that every shard holds."""
        weight = self.tensor(f"{name}.weight", (rows, columns))
        return packed(weight, self.tensor(f"{name}.bias", (rows,)) if bias else None)

    def norm(self, name: str, size: int, epsilon: float, late_cast: bool) -> RmsNorm:
        return RmsNorm(self.tensor(f"{name}.weight", (size,)), epsilon, late_cast)
