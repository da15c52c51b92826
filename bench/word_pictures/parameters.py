"""Parameters that are made when the engine's readers ask for them: what is trained is what is served."""

import math

import torch
from torch import nn

_LAST_FRAME = 5
"""Axes of a convolution of videos, of which pictures meet the last frame alone."""


class Parameters:
    """Makes tensors by name and shape, and keeps them."""

    def __init__(self, seed: int) -> None:
        self.held: dict[str, nn.Parameter] = {}
        self._draw = torch.Generator().manual_seed(seed)

    def __call__(self, name: str, shape: tuple[int, ...]) -> nn.Parameter:
        if name not in self.held:
            self.held[name] = nn.Parameter(self._made(name, shape))
        return self.held[name]

    def _made(self, name: str, shape: tuple[int, ...]) -> torch.Tensor:
        if name.endswith(".bias") or "_mod." in name or name.startswith(("norm_out.linear", "proj_out")):
            return torch.zeros(shape)  # a block begins as nothing (Peebles and Xie 2023, adaLN-Zero)
        if name.endswith(".gamma") or len(shape) == 1:
            return torch.ones(shape)
        kernel = shape[:2] + shape[3:] if len(shape) == _LAST_FRAME else shape
        values = torch.randn(kernel, generator=self._draw) / math.sqrt(math.prod(kernel[1:]))
        if len(shape) < _LAST_FRAME:
            return values
        whole = torch.zeros(shape)
        whole[:, :, -1] = values
        return whole
