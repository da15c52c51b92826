"""Root-mean-square normalisation."""

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True, eq=False)
class RmsNorm:
    """x / sqrt(mean(x²) + ε) × weight, in fp32 (Zhang and Sennrich 2019)."""

    weight: torch.Tensor
    epsilon: float
    late_cast: bool
    """gpt-oss multiplies by the weight before it goes back to the activation type, all others after."""

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        wide = rows.to(torch.float32)
        wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.epsilon)
        if self.late_cast:
            return (self.weight * wide).to(rows.dtype)
        return self.weight * wide.to(rows.dtype)
