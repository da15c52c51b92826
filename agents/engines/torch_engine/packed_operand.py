"""Packed matrices as the kernel that multiplies them takes them."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch.nn import functional

from agents.engines.torch_engine.mxfp4 import BLOCK_WEIGHTS
from agents.engines.torch_engine.quantised_matrix import E2M1, E4M3, INT4, INT8, QuantisedMatrix
from agents.engines.torch_engine.scale_grid import ScaleGrid
from agents.engines.torch_engine.sorted_rows import SortedRows

_CODES = ((E2M1, "e2m1"), (E4M3, "e4m3"), (INT4, "int4"), (INT8, "int8"))
_ALL_INPUTS = 1 << 30
"""A width that one column covers."""
_MOST_FUSED = 128
"""Rows. An H100 took 0.10 ms to multiply 28,672 × 4,096 weights in FP8 with 64; 0.13 ms to widen them, and then 0.16 ms
for 512."""
_WIDENED_ELEMENTS = 32 << 20


@dataclass(frozen=True, slots=True, eq=False)
class PackedOperand:
    """One matrix, or the same one of every expert; fields as `kernels.packed_product.multiply` says."""

    codes: torch.Tensor
    code: str
    outputs: int
    """Of one expert."""
    inputs: int
    scales: torch.Tensor | None
    scale: str
    scale_width: int
    first_input: int
    zeros: torch.Tensor | None
    row_of: torch.Tensor | None
    output_scales: torch.Tensor | None
    bias: torch.Tensor | None

    def multiplied(self, rows: torch.Tensor, ends: torch.Tensor | None) -> torch.Tensor:
        """(rows, inputs) → (rows, outputs). `ends`: where the rows of each expert end; None: there is one."""
        from agents.engines.torch_engine.kernels.packed_product import multiply

        return multiply(
            rows,
            self.codes,
            self.code,
            self.scales,
            self.scale,
            self.scale_width,
            self.first_input,
            self.zeros,
            self.row_of,
            self.output_scales,
            self.bias,
            self.outputs,
            self.inputs,
            ends,
        )

    def widened(self, some: slice, dtype: torch.dtype) -> torch.Tensor:
        """Return (outputs, inputs) numbers of `some` outputs."""
        from agents.engines.torch_engine.kernels.packed_product import widened

        is_apart = self.row_of is not None
        return widened(
            self.codes[some],
            self.code,
            self.scales if self.scales is None or is_apart else self.scales[some],
            self.scale,
            self.scale_width,
            self.first_input,
            self.zeros if self.zeros is None or is_apart else self.zeros[some],
            self.row_of[some] if self.row_of is not None else None,
            None if self.output_scales is None else self.output_scales[some],
            self.inputs,
            dtype,
        )


@dataclass(frozen=True, slots=True, eq=False)
class PackedLinear:
    """A product that reads weights as they are published.

    For many rows each weight would be widened once a tile of them: then it is widened first, a part of the matrix at a
    time, so that no room is needed for all of it."""

    operand: PackedOperand

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """(tokens, inputs) → (tokens, outputs)"""
        operand = self.operand
        if len(rows) <= _MOST_FUSED:
            return operand.multiplied(rows, None)
        made = rows.new_empty(len(rows), operand.outputs)
        step = max(1, _WIDENED_ELEMENTS // operand.inputs)
        for first in range(0, operand.outputs, step):
            some = slice(first, first + step)
            bias = None if operand.bias is None else operand.bias[some]
            made[:, some] = functional.linear(rows, operand.widened(some, rows.dtype), bias)
        return made


@dataclass(frozen=True, slots=True, eq=False)
class PackedExperts:
    """The same of every expert of a layer, in one operation, which finds its rows on the device."""

    operand: PackedOperand
    experts: int
    waits_for_router: ClassVar[bool] = False

    def __len__(self) -> int:
        return self.experts

    def __call__(self, rows: torch.Tensor, at: SortedRows) -> torch.Tensor:
        return self.operand.multiplied(rows, at.ends)


def packed_operand(matrix: QuantisedMatrix, outputs: int, bias: torch.Tensor | None) -> PackedOperand | None:
    """Return what the kernel multiplies instead of a matrix, whose experts have `outputs` outputs each. None where the
    kernel does not know how it is scaled: inputs that lie in no order, or two codes of a byte with scales apart."""
    grouped, by_output = _split(matrix)
    if grouped is not None and not _is_known(grouped, matrix):
        return None
    code = next(name for each, name in _CODES if each is matrix.code)
    scales, scale = (None, "none") if grouped is None else _stored(grouped.values)
    return PackedOperand(
        codes=matrix.codes,
        code=code,
        outputs=outputs,
        inputs=matrix.inputs,
        scales=scales,
        scale=scale,
        scale_width=_ALL_INPUTS if grouped is None or grouped.values.shape[1] == 1 else grouped.width,
        first_input=0 if grouped is None else grouped.first_input,
        zeros=None if matrix.zeros is None else matrix.zeros.values.contiguous(),
        row_of=None if grouped is None else grouped.row_of,
        output_scales=by_output,
        bias=None if bias is None else bias.flatten().contiguous(),
    )


def mxfp4_operand(
    blocks: torch.Tensor, scales: torch.Tensor, inputs: slice, bias: torch.Tensor | None
) -> PackedOperand:
    """The same of experts in MXFP4; arguments as `Mxfp4Matrices` says. `inputs` begin at an even one."""
    return PackedOperand(
        codes=blocks.flatten(0, 1).flatten(1)[:, inputs.start // 2 :],
        code="e2m1",
        outputs=blocks.shape[1],
        inputs=inputs.stop - inputs.start,
        scales=scales.flatten(0, 1),
        scale="e8m0",
        scale_width=BLOCK_WEIGHTS,
        first_input=inputs.start,
        zeros=None,
        row_of=None,
        output_scales=None,
        bias=None if bias is None else bias.flatten().contiguous(),
    )


def _is_known(grid: ScaleGrid, matrix: QuantisedMatrix) -> bool:
    if grid.column_of is not None:
        return False
    zeros = matrix.zeros
    if zeros is not None and (grid.row_of is not None or zeros.values.shape != grid.values.shape):
        return False
    is_even = grid.width % 2 == 0 and grid.first_input % 2 == 0
    return is_even or matrix.code.bits == 8 or grid.values.shape[1] == 1


def _split(matrix: QuantisedMatrix) -> tuple[ScaleGrid | None, torch.Tensor | None]:
    """Return the scales of groups of inputs, and those of outputs as (outputs,) fp32: a matrix has either or both.
    Where it has zero points, its first scales lie as these do."""
    first, *others = matrix.scales
    grouped = first if first.values.shape[1] > 1 or matrix.zeros is not None else None
    product: torch.Tensor | None = None
    for grid in others if grouped is first else matrix.scales:
        numbers = grid.values.to(torch.float32)[:, 0]
        numbers = numbers if grid.row_of is None else numbers[grid.row_of.long()]
        product = numbers if product is None else product * numbers
    return grouped, product


def _stored(values: torch.Tensor) -> tuple[torch.Tensor, str]:
    if values.dtype == torch.float8_e4m3fn:
        return values.contiguous().view(torch.uint8), "e4m3"
    return values.contiguous(), "float"
