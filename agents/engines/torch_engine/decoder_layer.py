"""One layer of a decoder."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from agents.engines.torch_engine.attention import Attention, StepPositions
from agents.engines.torch_engine.attention_plan import AttentionPlan
from agents.engines.torch_engine.kv_cache import KvCache
from agents.engines.torch_engine.norm import RmsNorm

FeedForward = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True, slots=True, eq=False)
class DecoderLayer:
    """Pre-norm residual layer: x + attention(norm(x)), then x + feed_forward(norm(x))."""

    attention_norm: RmsNorm
    attention: Attention
    feed_forward_norm: RmsNorm
    feed_forward: FeedForward
    total: Callable[[torch.Tensor], torch.Tensor]
    """Sums a block's output over the shards of the layer."""

    def __call__(
        self, rows: torch.Tensor, positions: StepPositions, cache: KvCache, plan: AttentionPlan, place: int
    ) -> torch.Tensor:
        """(tokens, hidden) → (tokens, hidden)"""
        rows = rows + self.total(self.attention(self.attention_norm(rows), positions, cache, plan, place))
        return rows + self.total(self.feed_forward(self.feed_forward_norm(rows)))
