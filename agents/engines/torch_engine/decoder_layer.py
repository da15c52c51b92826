"""One layer of a decoder."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from agents.engines.torch_engine.attention import Attention, StepPositions
from agents.engines.torch_engine.attention_plan import AttentionPlan
from agents.engines.torch_engine.encoder_attention import EncoderAttention
from agents.engines.torch_engine.expert_exchange import ExpertExchange
from agents.engines.torch_engine.gathered_attention import GatheredPlan
from agents.engines.torch_engine.kv_cache import KvCache
from agents.engines.torch_engine.norm import Norm

FeedForward = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True, slots=True, eq=False)
class DecoderLayer:
    """Pre-norm residual layer: x + attention(norm(x)), then x + feed_forward(norm(x))."""

    attention_norm: Norm
    attention: Attention
    feed_forward_norm: Norm
    feed_forward: FeedForward
    total: Callable[[torch.Tensor], torch.Tensor]
    """Sums a block's output over the shards of the layer."""
    exchange: ExpertExchange | None = None
    """Of the experts, where they are spread over more than these shards."""
    encoder_attention: EncoderAttention | None = None
    """A block between the two, of a decoder that attends to an encoder."""

    def __call__(
        self,
        rows: torch.Tensor,
        positions: StepPositions,
        cache: KvCache,
        plan: AttentionPlan,
        place: int,
        to_encoded: GatheredPlan | None = None,
    ) -> torch.Tensor:
        """(tokens, hidden) → (tokens, hidden)"""
        rows = rows + self.total(self.attention(self.attention_norm(rows), positions, cache, plan, place))
        if self.encoder_attention is not None and to_encoded is not None:
            rows = rows + self.total(self.encoder_attention(rows, cache, to_encoded, place))
        return rows + self.forward_feed(self.feed_forward_norm(rows))

    def forward_feed(self, rows: torch.Tensor) -> torch.Tensor:
        """The second block's output for (tokens, hidden) rows, of which there may be none."""
        if self.exchange is not None:
            return self.exchange.run(self.feed_forward, rows)
        return self.total(self.feed_forward(rows))
