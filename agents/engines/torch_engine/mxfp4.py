"""MXFP4: blocks of 32 four-bit floats with a shared power-of-two scale (OCP Microscaling Formats, version 1.0)."""

import torch

VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0)
"""Of the 16 codes of E2M1."""
SCALE_BIAS = 127


def dequantised(blocks: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """(…, blocks, 16) uint8, two codes a byte, the low one first, and (…, blocks) uint8 exponents → (…, 32 × blocks)
    fp32."""
    values = torch.tensor(VALUES, dtype=torch.float32)
    pairs = torch.stack((values[(blocks & 0xF).long()], values[(blocks >> 4).long()]), dim=-1)
    exponents = scales.to(torch.int32) - SCALE_BIAS
    return torch.ldexp(pairs.flatten(-2), exponents[..., None]).flatten(-2)
