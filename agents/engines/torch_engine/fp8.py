"""FP8 weights with a scale for each block of a matrix, as DeepSeek and Qwen publish them (DeepSeek-V3 technical report,
section 3.3)."""

from dataclasses import dataclass

import torch
from torch.nn import functional

SCALES = "weight_scale_inv"
"""What a tensor of scales is called beside `weight`."""
_UNPACKED_ELEMENTS = 16 << 20
"""Of a matrix, as many are unpacked at a time, as fp32: all of it would take four times the room that it is kept in."""


@dataclass(frozen=True, slots=True, eq=False)
class Fp8Linear:
    """A product whose weights stay as they are published; rows are not quantised."""

    codes: torch.Tensor
    """(outputs, inputs) bytes of E4M3 numbers."""
    scales: torch.Tensor
    """(block rows, block columns) fp32, which multiply."""
    block_row: torch.Tensor
    """(outputs,) int16: the row of `scales` that is an output's. Cut and joined matrices begin anywhere in a block."""
    block_columns: int
    """Inputs of a block."""
    first_input: int
    """Where in the first block the inputs begin."""
    bias: torch.Tensor | None

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """(tokens, inputs) → (tokens, outputs)"""
        outputs, inputs = self.codes.shape
        step = max(1, _UNPACKED_ELEMENTS // inputs)
        products = []
        for first in range(0, outputs, step):
            some = slice(first, first + step)
            bias = None if self.bias is None else self.bias[some]
            products.append(functional.linear(rows, self.unpacked(some, rows.dtype), bias))
        return products[0] if len(products) == 1 else torch.cat(products, dim=-1)

    def unpacked(self, outputs: slice, dtype: torch.dtype) -> torch.Tensor:
        """Some rows of the matrix."""
        codes = self.codes[outputs].view(torch.float8_e4m3fn).to(torch.float32)
        scales = self.scales[self.block_row[outputs].int()].repeat_interleave(self.block_columns, dim=1)
        return (codes * scales[:, self.first_input : self.first_input + codes.shape[1]]).to(dtype)
