"""Consecutive layers of a decoder with the ends they hold."""

from dataclasses import dataclass

import torch

from agents.engines.batch import StepBatch
from agents.engines.torch_engine.attention import StepPositions
from agents.engines.torch_engine.attention_plan import attention_plans
from agents.engines.torch_engine.decoder_layer import DecoderLayer
from agents.engines.torch_engine.kv_cache import KvCache
from agents.engines.torch_engine.linear import Linear
from agents.engines.torch_engine.norm import RmsNorm
from agents.engines.torch_engine.rope import Rope


@dataclass(frozen=True, slots=True, eq=False)
class LanguageHead:
    """What follows the model's last layer."""

    norm: RmsNorm
    projection: Linear

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """Hidden states (n, hidden) → fp32 logits (n, vocabulary)."""
        return self.projection(self.norm(rows)).to(torch.float32)


@dataclass(frozen=True, slots=True, eq=False)
class DecoderStage:
    embedding: torch.Tensor | None
    """(vocabulary, hidden), on the first stage."""
    layers: tuple[DecoderLayer, ...]
    head: LanguageHead | None
    """On the last stage."""
    rope: Rope
    dtype: torch.dtype

    def forward(self, batch: StepBatch, rows: torch.Tensor, cache: KvCache) -> torch.Tensor:
        """Token ids (tokens,) or hidden states (tokens, hidden) → hidden states behind the last held layer."""
        if self.embedding is not None:
            rows = self.embedding[rows]
        attention = self.layers[0].attention
        plans = attention_plans(cache, batch, attention.heads // attention.kv_heads)
        positions = self._positions(batch, rows.device)
        for i, layer in enumerate(self.layers):
            group, place = cache.place_of[i]
            rows = layer(rows, positions, cache, plans[group], place)
        return rows

    def _positions(self, batch: StepBatch, device: torch.device) -> StepPositions:
        at = torch.cat([torch.arange(r.position, r.position + r.tokens) for r in batch.requests]).to(device)
        cosine, sine = self.rope.tables(at)
        return StepPositions(cosine.to(self.dtype), sine.to(self.dtype))
