"""The dense feed-forward block."""

from dataclasses import dataclass

import torch
from torch.nn import functional

from agents.engines.torch_engine.linear import Linear


@dataclass(frozen=True, slots=True, eq=False)
class GatedMlp:
    """down(silu(gate(x)) × up(x)) (Shazeer 2020, SwiGLU)."""

    gate_up: Linear
    """Rows of gate, then of up: one product instead of two."""
    down: Linear

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """(tokens, hidden) → (tokens, hidden)"""
        gate, up = self.gate_up(rows).chunk(2, dim=-1)
        return self.down(functional.silu(gate) * up)
