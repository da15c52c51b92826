"""The same quantised matrix of every expert of a layer."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch.nn import functional

from agents.engines.torch_engine.expert_matrices import ExpertMatrices, SeparateMatrices, one_by_one
from agents.engines.torch_engine.int4_linear import Int4Linear
from agents.engines.torch_engine.packed_operand import PackedExperts, packed_operand
from agents.engines.torch_engine.quantised_linear import quantised_linear
from agents.engines.torch_engine.quantised_matrix import QuantisedMatrix, joined
from agents.engines.torch_engine.sorted_rows import SortedRows
from agents.engines.torch_engine.triton_support import runs_triton

_UNPACKED_WEIGHTS = 16 << 20
"""Of an operation's experts, at most, as fp32."""


@dataclass(frozen=True, slots=True, eq=False)
class QuantisedExperts:
    """Those that rows go to are unpacked for their product, a few at a time."""

    matrix: QuantisedMatrix
    """Experts below each other."""
    outputs: int
    """Of one expert."""
    waits_for_router: ClassVar[bool] = True

    def __len__(self) -> int:
        return self.matrix.outputs // self.outputs

    def __call__(self, rows: torch.Tensor, at: SortedRows) -> torch.Tensor:
        return one_by_one(rows, at, self.outputs, self._products)

    def _products(self, experts: Sequence[int], pieces: Sequence[torch.Tensor]) -> Iterator[torch.Tensor]:
        most = max(1, _UNPACKED_WEIGHTS // (self.outputs * self.matrix.inputs))
        within = torch.arange(self.outputs, device=self.matrix.codes.device)
        for first in range(0, len(experts), most):
            some = torch.tensor(experts[first : first + most], device=within.device)
            outputs = (some[:, None] * self.outputs + within).flatten()
            weights = self.matrix.unpacked(outputs, pieces[0].dtype).view(len(some), self.outputs, -1)
            yield from map(functional.linear, pieces[first : first + most], weights)


def quantised_experts(experts: Iterable[Sequence[QuantisedMatrix]], dtype: torch.dtype) -> ExpertMatrices:
    """`experts`: the matrices of each that are one below the other. `dtype`: of the rows."""
    each = list(experts)
    every = [matrix for matrices in each for matrix in matrices]
    outputs = sum(matrix.outputs for matrix in each[0])
    is_alike = all(matrix.alike(every[0]) for matrix in every)
    if is_alike and runs_triton(every[0].codes.device):
        operand = packed_operand(joined(every), outputs, None)
        if operand is not None:
            return PackedExperts(operand, len(each))
    first = quantised_linear(each[0], None, dtype)
    if is_alike and not isinstance(first, Int4Linear):
        return QuantisedExperts(joined(every), outputs)
    # A kernel takes one at a time; and inputs may have been quantised in orders of their own.
    others = tuple(quantised_linear(matrices, None, dtype) for matrices in each[1:])
    return SeparateMatrices((first, *others), outputs)
