"""Grouped-query attention over the paged KV cache."""

from dataclasses import dataclass

import torch
from torch.nn import functional

from agents.engines.torch_engine.attention_plan import AttentionPlan, AttentionRows
from agents.engines.torch_engine.kv_cache import KvCache
from agents.engines.torch_engine.linear import Projection
from agents.engines.torch_engine.norm import RmsNorm
from agents.engines.torch_engine.rope import rotate


@dataclass(frozen=True, slots=True, eq=False)
class StepPositions:
    """Rotations of the step's tokens, each (tokens, 1, rotated / 2) in the activation type."""

    cosine: torch.Tensor
    sine: torch.Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Attention:
    """One layer's attention block, for the heads held here."""

    query_key_value: Projection
    """Rows of all queries, then keys, then values: one product instead of three."""
    output: Projection
    heads: int
    kv_heads: int
    head_dim: int
    query_norm: RmsNorm | None
    key_norm: RmsNorm | None
    sinks: torch.Tensor | None
    """(heads,) logits that take part in the softmax and bring no value."""

    def __call__(
        self, rows: torch.Tensor, positions: StepPositions, cache: KvCache, plan: AttentionPlan, place: int
    ) -> torch.Tensor:
        """(tokens, hidden) → (tokens, hidden); writes keys and values of the layer at `place` of the plan's group."""
        every = self.query_key_value(rows).view(len(rows), -1, self.head_dim)
        queries, keys, values = torch.split_with_sizes(every, (self.heads, self.kv_heads, self.kv_heads), dim=1)
        if self.query_norm and self.key_norm:
            queries, keys = self.query_norm(queries), self.key_norm(keys)
        queries = rotate(queries, positions.cosine, positions.sine)
        cache.flat_keys.index_copy_(0, plan.slots[place], rotate(keys, positions.cosine, positions.sine))
        cache.flat_values.index_copy_(0, plan.slots[place], values)
        mixed = torch.empty_like(queries)
        for alike in plan.rows:
            mixed[alike.rows] = self._attend(queries[alike.rows], cache, alike, place)
        return self.output(mixed.flatten(1))

    def _attend(self, queries: torch.Tensor, cache: KvCache, alike: AttentionRows, place: int) -> torch.Tensor:
        """(requests × queries, heads, head_dim), like the queries.

        Heads that share a KV head are laid out as more queries of it, so that keys and values are not repeated.
        """
        group = self.heads // self.kv_heads
        count = alike.queries
        shape = (alike.requests, -1, self.kv_heads, self.head_dim)
        keys = cache.keys.index_select(0, alike.units[place]).view(shape).transpose(1, 2)
        values = cache.values.index_select(0, alike.units[place]).view(shape).transpose(1, 2)
        grouped = queries.reshape(alike.requests, count, self.kv_heads, group, self.head_dim).permute(0, 2, 3, 1, 4)
        grouped = grouped.reshape(alike.requests, self.kv_heads, group * count, self.head_dim)
        if self.sinks is None:
            mixed = functional.scaled_dot_product_attention(grouped, keys, values, attn_mask=alike.mask)
        else:
            sinks = self.sinks.view(1, self.kv_heads, group, 1, 1).expand(alike.requests, -1, -1, count, 1)
            mixed = _attend_with_sinks(grouped, keys, values, alike.mask, sinks.flatten(2, 3))
        mixed = mixed.reshape(alike.requests, self.kv_heads, group, count, self.head_dim).permute(0, 3, 1, 2, 4)
        return mixed.reshape(-1, self.heads, self.head_dim)


def _attend_with_sinks(
    queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor, sinks: torch.Tensor
) -> torch.Tensor:
    """Attention whose softmax has one more logit a query, `sinks` (requests, KV heads, queries, 1) (gpt-oss)."""
    scores = queries @ keys.transpose(2, 3) * queries.shape[-1] ** -0.5 + mask
    weights = torch.cat((scores, sinks.to(scores.dtype)), dim=-1).softmax(dim=-1)
    return weights[..., :-1] @ values
