"""MXFP4: blocks of 32 four-bit floats with a shared power-of-two scale (OCP Microscaling Formats, version 1.0)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import torch
from torch.nn import functional

from agents.engines.torch_engine.expert_matrices import one_by_one
from agents.engines.torch_engine.sorted_rows import SortedRows

VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0)
"""Of the 16 codes of E2M1."""
SCALE_BIAS = 127
BLOCK_WEIGHTS = 32
_UNPACKED_WEIGHTS = 32 << 20
"""Of an operation's experts, at most: two of gpt-oss."""


@cache
def _pairs(dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """(256, 2): the values of each byte, that of its low bits first."""
    values = torch.tensor(VALUES, dtype=dtype, device=device)
    byte = torch.arange(256, device=device)
    return torch.stack((values[byte & 0xF], values[byte >> 4]), dim=-1)


@cache
def _powers(dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """(256,) scales by their exponents; bf16 has as many powers of two as fp32."""
    exponents = torch.arange(256, device=device) - SCALE_BIAS
    return torch.ldexp(torch.ones(256, device=device), exponents).to(dtype)


def dequantised(blocks: torch.Tensor, scales: torch.Tensor, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """(…, blocks, 16) uint8, two codes a byte, the low one first, and (…, blocks) uint8 exponents → (…, 32 × blocks).
    Exact in fp32 and bf16."""
    values = _pairs(dtype, blocks.device)[blocks.int()].flatten(-2)
    return (values * _powers(dtype, blocks.device)[scales.int()][..., None]).flatten(-2)


@dataclass(frozen=True, slots=True, eq=False)
class Mxfp4Matrices:
    """The same matrix of every expert, kept as it is published. Those that rows go to are unpacked for their product, a
    few at a time, so that little is in memory twice."""

    blocks: torch.Tensor
    """(experts, outputs, blocks, 16)"""
    scales: torch.Tensor
    """(experts, outputs, blocks)"""
    inputs: slice
    """Those that are held, of the blocks' weights: a cut may go through a block."""
    bias: torch.Tensor | None
    """(experts, outputs)"""
    waits_for_router: ClassVar[bool] = True

    def __len__(self) -> int:
        return len(self.blocks)

    def __call__(self, rows: torch.Tensor, at: SortedRows) -> torch.Tensor:
        return one_by_one(rows, at, self.blocks.shape[1], self._products)

    def _products(self, experts: Sequence[int], pieces: Sequence[torch.Tensor]) -> Iterator[torch.Tensor]:
        most = max(1, _UNPACKED_WEIGHTS // (2 * self.blocks[0].numel()))
        for first in range(0, len(experts), most):
            some = torch.tensor(experts[first : first + most], device=self.blocks.device)
            weights = dequantised(self.blocks[some], self.scales[some], pieces[0].dtype)[..., self.inputs]
            biases = [None] * len(some) if self.bias is None else self.bias[some]
            for weight, bias, piece in zip(weights, biases, pieces[first : first + most], strict=True):
                yield functional.linear(piece, weight, bias)
