"""Products with 4-bit integers by torch's own kernels, which read the weights packed."""

import logging
from dataclasses import dataclass
from functools import cache

import torch
from torch.nn import functional

from agents.engines.torch_engine.quantised_matrix import INT4, QuantisedMatrix
from agents.engines.torch_engine.scale_grid import ScaleGrid

GROUPS = (128, 256)
"""Inputs that share a scale. The kernels also take 32 and 64, but want as much again for zero points beside the scales,
which is over 3 % of the weights there."""
_INNER_TILES = 8
"""Of the layout on GPUs: tiles of 16 inputs that a warp reads at once."""
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Int4Linear:
    """A product in bf16: numbers are (code - 8) × scale + zero."""

    words: torch.Tensor
    """Weights in the layout of the device's kernel."""
    scales_and_zeros: torch.Tensor
    """(groups, outputs, 2) bf16."""
    group: int
    order: torch.Tensor | None
    """(inputs,): which input comes where, if groups are not consecutive ones."""
    bias: torch.Tensor | None

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """(tokens, inputs) → (tokens, outputs)"""
        if self.order is not None:
            rows = rows[:, self.order]
        product = _multiplied(rows.contiguous(), self.words, self.group, self.scales_and_zeros)
        return product if self.bias is None else product + self.bias


def int4_linear(matrix: QuantisedMatrix, bias: torch.Tensor | None, dtype: torch.dtype) -> Int4Linear | None:
    """Return the product by a kernel; None where there is none for this matrix, data type or device: it is unpacked
    then."""
    grid = matrix.scales[0]
    device, group = matrix.codes.device, grid.width
    if dtype != torch.bfloat16 or matrix.code is not INT4 or not _fits(matrix, grid) or not _works(device.type, group):
        return None
    return _int4_linear(matrix, bias)


def _fits(matrix: QuantisedMatrix, grid: ScaleGrid) -> bool:
    groups = matrix.inputs // max(grid.width, 1)
    if grid.width not in GROUPS or groups * grid.width != matrix.inputs or matrix.outputs % 16 or grid.first_input:
        return False
    if grid.row_of is not None or grid.values.shape[1] != groups:
        return False
    # A shard's inputs may be unevenly many of each group where these are not consecutive.
    return grid.column_of is None or bool((torch.bincount(grid.column_of.int(), minlength=groups) == grid.width).all())


def _int4_linear(matrix: QuantisedMatrix, bias: torch.Tensor | None) -> Int4Linear:
    grid = matrix.scales[0]
    scales = grid.values.to(torch.float32)
    zeros = torch.zeros_like(scales) if matrix.zeros is None else -matrix.zeros.values.to(torch.float32) * scales
    order = None if grid.column_of is None else grid.column_of.int().argsort(stable=True).int()
    codes = torch.stack((matrix.codes & 0xF, matrix.codes >> 4), dim=-1).flatten(1)
    codes = codes if order is None else codes[:, order]
    both = torch.stack((scales.T, zeros.T), dim=-1).to(torch.bfloat16).contiguous()
    return Int4Linear(_laid_out(codes), both, grid.width, order, bias)


def _laid_out(codes: torch.Tensor) -> torch.Tensor:
    """(outputs, inputs) uint8 → the kernel's layout."""
    if codes.is_cpu:
        laid_out: torch.Tensor = torch.ops.aten._convert_weight_to_int4pack_for_cpu(codes.int(), _INNER_TILES)
    else:
        pairs = codes[:, 0::2] << 4 | codes[:, 1::2]
        laid_out = torch.ops.aten._convert_weight_to_int4pack(pairs, _INNER_TILES)
    return laid_out


def _multiplied(rows: torch.Tensor, words: torch.Tensor, group: int, scales_and_zeros: torch.Tensor) -> torch.Tensor:
    kernel = torch.ops.aten._weight_int4pack_mm_for_cpu if rows.is_cpu else torch.ops.aten._weight_int4pack_mm
    product: torch.Tensor = kernel(rows, words, group, scales_and_zeros)
    return product


@cache
def _works(device: str, group: int) -> bool:
    """Compare the kernel with unpacked weights, once a process: what a release of torch does on a device is seen here,
    and not by who reads the tokens."""
    generator = torch.Generator().manual_seed(0)
    outputs, inputs = 32, 2 * group
    codes = torch.randint(0, 16, (outputs, inputs), dtype=torch.uint8, generator=generator)
    scales = ScaleGrid(torch.rand(outputs, 2, generator=generator) + 0.5, group)
    zeros = ScaleGrid(torch.randint(-8, 8, (outputs, 2), dtype=torch.int8, generator=generator), group)
    matrix = QuantisedMatrix.of(INT4, codes, (scales,), zeros).to(torch.device(device))
    rows = torch.randn(3, inputs, generator=generator).to(device=device, dtype=torch.bfloat16)
    try:
        ours = _int4_linear(matrix, None)(rows).float()
    except (RuntimeError, AttributeError) as error:  # an older torch has no such operation
        why = str(error).partition("\n")[0]
    else:
        expected = functional.linear(rows.float(), matrix.unpacked(slice(0, outputs), torch.float32))
        off = float((ours - expected).abs().max() / expected.abs().max())
        if off < 0.02:
            return True
        why = f"its products are off by {off:.0%}"
    _LOG.warning("torch's int4 kernel is not used on %s: %s; weights are unpacked for each product", device, why)
    return False
