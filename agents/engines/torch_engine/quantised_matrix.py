"""A matrix whose weights stay as small as they are published."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Self

import torch
from torch.nn import functional

from agents.engines.torch_engine.mxfp4 import VALUES
from agents.engines.torch_engine.scale_grid import Rows, ScaleGrid, joined_grids, taken


@dataclass(frozen=True, slots=True)
class Code:
    """A number format of 4 or 8 bits."""

    bits: int
    values: Callable[[torch.Tensor], torch.Tensor]
    """(…, bytes) → fp32 (…, numbers); of 4 bits the low ones come first."""


@cache
def _pairs(values: tuple[float, ...], device: torch.device) -> torch.Tensor:
    """(256, 2): the two values of each byte."""
    table = torch.tensor(values, device=device)
    byte = torch.arange(256, device=device)
    return torch.stack((table[byte & 0xF], table[byte >> 4]), dim=-1)


def _of_four_bits(values: tuple[float, ...]) -> Code:
    return Code(4, lambda codes: _pairs(values, codes.device)[codes.int()].flatten(-2))


E4M3 = Code(8, lambda codes: codes.view(torch.float8_e4m3fn).to(torch.float32))
E2M1 = _of_four_bits(VALUES)
INT4 = _of_four_bits(tuple(float(code - 8) for code in range(16)))
"""Zero points are reckoned from the middle: 0 where quantisation was symmetric."""
INT8 = Code(8, lambda codes: codes.to(torch.float32) - 128)


@dataclass(frozen=True, slots=True, eq=False)
class QuantisedMatrix:
    code: Code
    codes: torch.Tensor
    """(outputs, bytes) uint8."""
    inputs: int
    scales: tuple[ScaleGrid, ...]
    """All multiply."""
    zeros: ScaleGrid | None
    """Subtracted before; None: 0."""

    @classmethod
    def of(cls, code: Code, loose: torch.Tensor, scales: tuple[ScaleGrid, ...], zeros: ScaleGrid | None = None) -> Self:
        """`loose`: (outputs, inputs) codes, one a byte."""
        inputs = loose.shape[1]
        if code.bits == 4:
            low, high = functional.pad(loose, (0, inputs % 2)).view(len(loose), -1, 2).unbind(-1)
            loose = low | (high << 4)
        return cls(code, loose.contiguous(), inputs, scales, zeros)

    @property
    def outputs(self) -> int:
        return len(self.codes)

    def unpacked(self, outputs: Rows, dtype: torch.dtype) -> torch.Tensor:
        """Return some rows of the matrix."""
        values = self.code.values(taken(self.codes, outputs))[:, : self.inputs]
        if self.zeros is not None:
            values = self.zeros.combined(values, outputs, torch.sub)
        for grid in self.scales:
            values = grid.combined(values, outputs, torch.mul)
        return values.to(dtype)

    def to(self, device: torch.device) -> "QuantisedMatrix":
        zeros = None if self.zeros is None else self.zeros.to(device)
        scales = tuple(grid.to(device) for grid in self.scales)
        return replace(self, codes=self.codes.to(device), scales=scales, zeros=zeros)

    def alike(self, other: "QuantisedMatrix") -> bool:
        """Tell whether both can be joined."""
        has_zeros = self.zeros is not None and other.zeros is not None
        pairs = [*zip(self.scales, other.scales, strict=True)]
        if has_zeros and self.zeros and other.zeros:
            pairs.append((self.zeros, other.zeros))
        return (self.zeros is None) == (other.zeros is None) and all(ours.alike(theirs) for ours, theirs in pairs)


def joined(matrices: Sequence[QuantisedMatrix]) -> QuantisedMatrix:
    """Return matrices of the same inputs, which are `alike`, below each other."""
    if len(matrices) == 1:
        return matrices[0]
    zeros = [matrix.zeros for matrix in matrices if matrix.zeros is not None]
    return replace(
        matrices[0],
        codes=torch.cat([matrix.codes for matrix in matrices]),
        scales=tuple(map(joined_grids, zip(*(matrix.scales for matrix in matrices), strict=True))),
        zeros=joined_grids(zeros) if zeros else None,
    )
