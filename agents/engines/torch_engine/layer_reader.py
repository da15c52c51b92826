"""Reads tensors of a checkpoint into the engine's data type and device."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch

from agents.engines.torch_engine.fp8 import SCALES, Fp8Linear
from agents.engines.torch_engine.linear import Linear, Projection, packed
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
    block: tuple[int, int]
    """Rows and columns of the blocks of quantised matrices that have one scale."""

    @property
    def like(self) -> torch.Tensor:
        """Data type and device of what is read."""
        return torch.empty(0, dtype=self.dtype, device=self.device)

    def under(self, part: str) -> "LayerReader":
        return replace(self, prefix=self.prefix + part)

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
    ) -> Projection:
        """Projections of the same input into heads or width as one: the rows that are kept of each, one below the
        other. `parts`: rows of each, and which are kept. One name alone: the checkpoint has them below each other,
        too."""
        offsets = self._rows(names, "bias", parts, (), self.dtype) if bias else None
        if self.is_quantised(names[0]):
            return self._quantised_rows(names, parts, columns, offsets)
        return packed(self.rows(names, parts, columns), offsets)

    def is_quantised(self, name: str) -> bool:
        """Tell whether a matrix has scales; most checkpoints keep some that have none."""
        return f"{self.prefix}{name}.{SCALES}" in self.checkpoint.names

    def rows(self, names: tuple[str, ...], parts: tuple[tuple[int, slice], ...], columns: int) -> torch.Tensor:
        """Return the weights of `into`."""
        return self._rows(names, "weight", parts, (columns,), self.dtype)

    def _rows(
        self,
        names: tuple[str, ...],
        kind: str,
        parts: tuple[tuple[int, slice], ...],
        columns: tuple[int, ...],
        dtype: torch.dtype,
    ) -> torch.Tensor:
        held = sum(span.stop - span.start for _, span in parts)
        made = torch.empty(held, *columns, dtype=dtype, device=self.device)
        at = 0
        counts = tuple(count for count, _ in parts)
        for tensor, (_, span) in zip(self._below(names, kind, counts, columns), parts, strict=True):
            end = at + span.stop - span.start
            made[at:end] = tensor[span] if dtype == self.dtype else tensor[span].view(dtype)
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

    def _quantised_rows(
        self,
        names: tuple[str, ...],
        parts: tuple[tuple[int, slice], ...],
        columns: int,
        bias: torch.Tensor | None,
    ) -> Fp8Linear:
        counts = [count for count, _ in parts]
        sizes = [sum(counts)] if len(names) == 1 else counts
        scales = [self._scales(name, size, columns) for name, size in zip(names, sizes, strict=True)]
        rows, row, base = [], 0, 0
        for number, (count, span) in enumerate(parts):
            rows.append(base + (row + torch.arange(span.start, span.stop)) // self.block[0])
            if len(names) == 1:
                row += count
            else:
                base += len(scales[number])
        codes = self._rows(names, "weight", parts, (columns,), torch.uint8)
        return Fp8Linear(codes, torch.cat(scales), torch.cat(rows).to(self.device, torch.int16), self.block[1], 0, bias)

    def _quantised_columns(self, name: str, rows: int, columns: int, bias: torch.Tensor | None) -> Fp8Linear:
        span, width = self.shard.span(columns), self.block[1]
        first, end = span.start // width, -(-span.stop // width)
        stored = self.stored(f"{name}.weight", (rows, columns)).view(torch.uint8)[:, span]
        codes = stored.to(self.device).clone(memory_format=torch.contiguous_format)
        scales = self._scales(name, rows, columns)[:, first:end].contiguous()
        block_row = (torch.arange(rows, device=self.device) // self.block[0]).to(torch.int16)
        return Fp8Linear(codes, scales, block_row, width, span.start - first * width, bias)

    def _scales(self, name: str, rows: int, columns: int) -> torch.Tensor:
        shape = -(-rows // self.block[0]), -(-columns // self.block[1])
        return self.stored(f"{name}.{SCALES}", shape).to(device=self.device, dtype=torch.float32, copy=True)

    def out_of(self, name: str, rows: int, columns: int, bias: bool = False) -> Projection:
        """A projection out of heads or width: this shard's columns; its output is summed over the shards."""
        offsets = self.tensor(f"{name}.bias", (rows,)) if bias and self.shard.adds_bias else None
        if self.is_quantised(name):
            return self._quantised_columns(name, rows, columns, offsets)
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
