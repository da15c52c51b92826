"""Root-mean-square normalisation by torch's operations."""

import torch


def normalised(rows: torch.Tensor, weight: torch.Tensor, epsilon: float, late_cast: bool) -> torch.Tensor:
    """(…, size) rows → x / sqrt(mean(x²) + ε) × weight, in fp32 (Zhang and Sennrich 2019). `late_cast`: multiply by the
    weight before going back to the type of the rows."""
    wide = rows.to(torch.float32)
    wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + epsilon)
    if late_cast:
        return (weight * wide).to(rows.dtype)
    return weight * wide.to(rows.dtype)
