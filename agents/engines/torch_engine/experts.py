"""The mixture-of-experts feed-forward block."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn import functional

from agents.engines.torch_engine.expert_matrices import ExpertMatrices
from agents.engines.torch_engine.linear import Linear
from agents.engines.torch_engine.sorted_rows import sorted_rows
from agents.engines.torch_engine.triton_support import runs_triton

GPT_OSS_ALPHA = 1.702
GPT_OSS_LIMIT = 7.0
"""Slope of the gate's sigmoid and clamp of gate and up (gpt-oss model card, `swiglu_limit`)."""

Router = Callable[[torch.Tensor, int], tuple[torch.Tensor, torch.Tensor]]
"""(tokens, experts) logits and the number of active experts → their weights and indices, each (tokens, active)."""
Activation = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""gate, up → input of the down projection."""


@dataclass(frozen=True, slots=True, eq=False)
class Experts:
    router: Linear
    route: Router
    count: int
    """Experts of the layer, held here or not."""
    active: int
    first: int
    """The first of the experts held here; tokens that chose others get nothing from this shard."""
    gate_up: ExpertMatrices
    """Rows of gate, then of up."""
    down: ExpertMatrices
    activation: Activation

    @property
    def waits_for_router(self) -> bool:
        return self.gate_up.waits_for_router or self.down.waits_for_router

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        weights, chosen = self.route(self.router(rows), self.active)
        held, is_whole = len(self.gate_up), len(self.gate_up) == self.count
        at = sorted_rows(chosen, self.first, held, is_whole)
        gate, up = self.gate_up(rows[at.row], at).chunk(2, dim=-1)
        result = self.down(self.activation(gate, up), at)
        if not is_whole:
            result = result.masked_fill((at.expert == held)[:, None], 0.0)
        # Back to the order of the choices: each row's are added up in the same order whatever else is in the step.
        each = torch.empty_like(result).index_copy_(0, at.rank, result).view(*chosen.shape, -1)
        return (each * weights[..., None]).sum(1)


def softmax_then_choose(logits: torch.Tensor, active: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Qwen3-MoE without normalisation: the active experts keep their share of the softmax over all."""
    weights, chosen = functional.softmax(logits, dim=-1, dtype=torch.float32).topk(active, dim=-1)
    return weights.to(logits.dtype), chosen


def softmax_choose_normalise(logits: torch.Tensor, active: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Qwen3-MoE (`norm_topk_prob`): the shares of the active experts are scaled to add up to one."""
    weights, chosen = functional.softmax(logits, dim=-1, dtype=torch.float32).topk(active, dim=-1)
    return (weights / weights.sum(-1, keepdim=True)).to(logits.dtype), chosen


def choose_then_softmax(logits: torch.Tensor, active: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Weigh experts as gpt-oss does: a softmax over the active experts' logits alone."""
    best, chosen = logits.topk(active, dim=-1)
    return functional.softmax(best, dim=-1), chosen


def swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """silu(gate) × up (Shazeer 2020), both (rows, width)."""
    if runs_triton(gate.device):
        from agents.engines.torch_engine.kernels.row_operations import gated

        return gated(gate, up)
    return functional.silu(gate) * up


def clamped_swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """Activate as gpt-oss does: clamped, with a steeper sigmoid and an offset on the linear part."""
    gate = gate.clamp(max=GPT_OSS_LIMIT)
    up = up.clamp(min=-GPT_OSS_LIMIT, max=GPT_OSS_LIMIT)
    return (up + 1) * (gate * torch.sigmoid(gate * GPT_OSS_ALPHA))
