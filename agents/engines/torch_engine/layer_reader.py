"""Reads tensors of a checkpoint into the engine's data type and device."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch

from agents.engines.torch_engine.linear import Linear, Projection, packed
from agents.engines.torch_engine.norm import LayerNorm, RmsNorm
from agents.engines.torch_engine.quantised_linear import quantised_linear
from agents.engines.torch_engine.quantised_matrix import QuantisedMatrix
from agents.engines.torch_engine.quantised_reader import LooseMatrix, read_quantised
from agents.engines.torch_engine.shard import Shard
from agents.engines.torch_engine.weight_layout import WeightLayout
from agents.weights.checkpoint import Checkpoint
from agents.weights.errors import WeightsError

_PLAIN = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
_IN_ITS_PLACE = ("qweight", "weight_packed")
"""Ends of the names of tensors that quantised matrices have and plain ones have not."""


@dataclass(frozen=True, slots=True)
class LayerReader:
    """`prefix` is put before every name; of matrices that are cut, `shard`'s part is kept."""

    checkpoint: Checkpoint
    prefix: str
    shard: Shard
    dtype: torch.dtype
    device: torch.device
    layout: WeightLayout | None
    """How quantised matrices are published; None: there are none."""

    @property
    def like(self) -> torch.Tensor:
        """Data type and device of what is read."""
        return torch.empty(0, dtype=self.dtype, device=self.device)

    def under(self, part: str) -> "LayerReader":
        return replace(self, prefix=self.prefix + part)

    def tensor(self, name: str, shape: tuple[int, ...]) -> torch.Tensor:
        """A copy, so that the mapped file can be let go. Raises WeightsError where the shape is another."""
        return self._plain(name, shape).to(device=self.device, dtype=self.dtype, copy=True)

    def tokens(self, name: str, shape: tuple[int, int]) -> torch.Tensor:
        """This shard's part of a matrix with a row for each token of the vocabulary; otherwise as `tensor`."""
        held = self._plain(name, shape)[self.shard.vocabulary(shape[0])]
        return held.to(device=self.device, dtype=self.dtype, copy=True)

    def stored(self, name: str, shape: tuple[int, ...]) -> torch.Tensor:
        """Read a tensor as the checkpoint has it. Raises WeightsError where its shape is not `shape`."""
        read = self.checkpoint.read(self.prefix + name)
        if tuple(read.shape) != shape:
            raise WeightsError(
                f"tensor {self.prefix + name!r} has shape {tuple(read.shape)}, config.json says {shape}: the files are "
                f"not of one model, or damaged; fetch them again"
            )
        return read

    def _plain(self, name: str, shape: tuple[int, ...]) -> torch.Tensor:
        """Read a tensor of numbers as they are. Raises WeightsError for codes, which mean nothing without scales."""
        if self.prefix + name not in self.checkpoint.names and name.endswith(".weight"):
            self._refuse_packed(self.prefix + name.removesuffix(".weight"))
        read = self.stored(name, shape)
        if read.dtype not in _PLAIN:
            raise WeightsError(
                f"tensor {self.prefix + name!r} is stored as {str(read.dtype).removeprefix('torch.')}, and none of the "
                "scales are there that quantization_config of config.json stands for: fetch all files again, or name a "
                "checkpoint in bf16"
            )
        return read

    def _refuse_packed(self, matrix: str) -> None:
        packed_as = next((each for each in _IN_ITS_PLACE if f"{matrix}.{each}" in self.checkpoint.names), None)
        if packed_as is not None:
            raise WeightsError(
                f"matrix {matrix!r} is quantised ({matrix}.{packed_as}), and config.json has no quantization_config "
                "for it: fetch config.json again, or name a checkpoint in bf16"
            )

    def cut(self, rows: int) -> tuple[int, slice]:
        """Return the number of rows, and this shard's of them."""
        return rows, self.shard.span(rows)

    def into(
        self, names: tuple[str, ...], parts: tuple[tuple[int, slice], ...], columns: int, bias: bool = False
    ) -> Projection:
        """Projections of the same input into heads or width as one: the rows that are kept of each, one below the
        other. `parts`: rows of each, and which are kept. One name alone: the checkpoint has them below each other,
        too."""
        offsets = self._rows(names, "bias", parts, ()) if bias else None
        if self.is_quantised(names[0]):
            return quantised_linear(self.quantised_rows(names, parts, columns), offsets, self.dtype)
        return packed(self.rows(names, parts, columns), offsets)

    def is_quantised(self, name: str) -> bool:
        """Tell whether a matrix has scales; most checkpoints keep some that have none."""
        return self.layout is not None and self.layout.has(self.checkpoint.names, self.prefix + name)

    def rows(self, names: tuple[str, ...], parts: tuple[tuple[int, slice], ...], columns: int) -> torch.Tensor:
        """Return the weights of `into`."""
        return self._rows(names, "weight", parts, (columns,))

    def _rows(
        self,
        names: tuple[str, ...],
        kind: str,
        parts: tuple[tuple[int, slice], ...],
        columns: tuple[int, ...],
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
            yield from torch.split(self._plain(f"{names[0]}.{kind}", (sum(counts), *columns)), list(counts))
        else:
            for name, count in zip(names, counts, strict=True):
                yield self._plain(f"{name}.{kind}", (count, *columns))

    def quantised_rows(
        self, names: tuple[str, ...], parts: tuple[tuple[int, slice], ...], columns: int
    ) -> list[QuantisedMatrix]:
        """Return the parts of a quantised `into`."""
        counts = [count for count, _ in parts]
        whole, every = slice(0, columns), []
        loose = [self._quantised(names[0], sum(counts), columns)] if len(names) == 1 else []
        before = 0
        for number, (count, span) in enumerate(parts):
            matrix = loose[0] if loose else self._quantised(names[number], count, columns)
            held = slice(before + span.start, before + span.stop)
            every.append(matrix.part(held, whole).to(self.device))
            before += count if loose else 0
        return every

    def quantised_columns(self, name: str, rows: int, columns: int) -> QuantisedMatrix:
        """Return the weights of a quantised `out_of`."""
        return self._quantised(name, rows, columns).part(slice(0, rows), self.shard.span(columns)).to(self.device)

    def _quantised(self, name: str, rows: int, columns: int) -> LooseMatrix:
        if self.layout is None:
            raise ValueError(f"{self.prefix}{name} is not quantised")
        return read_quantised(self.checkpoint, self.prefix + name, self.layout, rows, columns)

    def out_of(self, name: str, rows: int, columns: int, bias: bool = False) -> Projection:
        """A projection out of heads or width: this shard's columns; its output is summed over the shards."""
        offsets = self.tensor(f"{name}.bias", (rows,)) if bias and self.shard.adds_bias else None
        if self.is_quantised(name):
            return quantised_linear([self.quantised_columns(name, rows, columns)], offsets, self.dtype)
        return packed(self.columns(name, rows, columns), offsets)

    def columns(self, name: str, rows: int, columns: int) -> torch.Tensor:
        """Return the weights of `out_of`."""
        weight = self._plain(f"{name}.weight", (rows, columns))[:, self.shard.span(columns)]
        return weight.to(device=self.device, dtype=self.dtype).clone(memory_format=torch.contiguous_format)

    def whole(self, name: str, rows: int, columns: int, bias: bool = False) -> Linear:
        """A projection that every shard holds."""
        weight = self.tensor(f"{name}.weight", (rows, columns))
        return packed(weight, self.tensor(f"{name}.bias", (rows,)) if bias else None)

    def layer_norm(self, name: str, size: int, epsilon: float) -> LayerNorm:
        return LayerNorm(self.tensor(f"{name}.weight", (size,)), self.tensor(f"{name}.bias", (size,)), epsilon)

    def norm(self, name: str, size: int, epsilon: float, late_cast: bool) -> RmsNorm:
        return RmsNorm(self.tensor(f"{name}.weight", (size,)), epsilon, late_cast)
