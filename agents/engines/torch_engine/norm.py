"""Normalisation of rows."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn import functional

from agents.engines.torch_engine.normalised import normalised
from agents.engines.torch_engine.triton_support import runs_triton

Norm = Callable[[torch.Tensor], torch.Tensor]
"""(…, size), like the rows."""


@dataclass(frozen=True, slots=True, eq=False)
class RmsNorm:
    """x / sqrt(mean(x²) + ε) × weight, in fp32 (Zhang and Sennrich 2019)."""

    weight: torch.Tensor
    epsilon: float
    late_cast: bool
    """gpt-oss multiplies by the weight before it goes back to the activation type, all others after."""

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """(…, size), like the rows."""
        if rows.dim() == 2 and runs_triton(rows.device):
            from agents.engines.torch_engine.kernels.row_operations import normalise

            return normalise(rows, self.weight, self.epsilon, self.late_cast)
        return normalised(rows, self.weight, self.epsilon, self.late_cast)


@dataclass(frozen=True, slots=True, eq=False)
class LayerNorm:
    """(x - mean(x)) / sqrt(var(x) + ε) × weight + bias (Ba et al. 2016)."""

    weight: torch.Tensor
    bias: torch.Tensor
    epsilon: float

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """(…, size), like the rows."""
        return functional.layer_norm(rows, self.weight.shape, self.weight, self.bias, self.epsilon)
