"""A matrix product whose weights stay as small as they are published."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.nn import functional

from agents.engines.torch_engine.int4_linear import int4_linear
from agents.engines.torch_engine.linear import Projection
from agents.engines.torch_engine.packed_operand import PackedLinear, packed_operand
from agents.engines.torch_engine.quantised_matrix import QuantisedMatrix, joined
from agents.engines.torch_engine.triton_support import runs_triton

_UNPACKED_ELEMENTS = 16 << 20
"""Of a matrix, as many are unpacked at a time, as fp32: all of it would take four to eight times the room that it is
kept in."""


@dataclass(frozen=True, slots=True, eq=False)
class QuantisedLinear:
    """A product whose weights stay as they are published; rows are not quantised."""

    matrix: QuantisedMatrix
    bias: torch.Tensor | None

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """(tokens, inputs) → (tokens, outputs)"""
        step = max(1, _UNPACKED_ELEMENTS // self.matrix.inputs)
        products = []
        for first in range(0, self.matrix.outputs, step):
            some = slice(first, first + step)
            bias = None if self.bias is None else self.bias[some]
            products.append(functional.linear(rows, self.matrix.unpacked(some, rows.dtype), bias))
        return products[0] if len(products) == 1 else torch.cat(products, dim=-1)


@dataclass(frozen=True, slots=True, eq=False)
class SideBySide:
    """Products of the same rows whose matrices cannot be joined."""

    each: tuple[Projection, ...]

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        return torch.cat([linear(rows) for linear in self.each], dim=-1)


def quantised_linear(matrices: Sequence[QuantisedMatrix], bias: torch.Tensor | None, dtype: torch.dtype) -> Projection:
    """Return the product with matrices below each other. `bias`: of all outputs; `dtype`: of the rows."""
    if all(matrix.alike(matrices[0]) for matrix in matrices):
        return _linear(joined(matrices), bias, dtype)
    sizes = [matrix.outputs for matrix in matrices]
    biases = [None] * len(sizes) if bias is None else torch.split(bias, sizes)
    return SideBySide(tuple(_linear(*each, dtype) for each in zip(matrices, biases, strict=True)))


def _linear(matrix: QuantisedMatrix, bias: torch.Tensor | None, dtype: torch.dtype) -> Projection:
    kernel = int4_linear(matrix, bias, dtype)
    if kernel is not None:
        return kernel
    operand = packed_operand(matrix, matrix.outputs, bias) if runs_triton(matrix.codes.device) else None
    return QuantisedLinear(matrix, bias) if operand is None else PackedLinear(operand)
