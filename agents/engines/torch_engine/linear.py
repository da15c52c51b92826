"""A matrix product with weights of one layer."""

from dataclasses import dataclass

import torch
from torch.nn import functional


@dataclass(frozen=True, slots=True, eq=False)
class Linear:
    weight: torch.Tensor
    """(outputs, inputs)"""
    bias: torch.Tensor | None = None
    """(outputs,)"""

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """(…, inputs) → (…, outputs)"""
        return functional.linear(rows, self.weight, self.bias)
