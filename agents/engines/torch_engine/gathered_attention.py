"""Attention over keys and values that are gathered from the paged cache, by torch's own operations: anywhere."""

from dataclasses import dataclass

import torch
from torch.nn import functional

from agents.engines.torch_engine.kv_cache import KvCache


@dataclass(frozen=True, slots=True, eq=False)
class GatheredRows:
    """Requests with equally many queries and about as many blocks: one batched product."""

    rows: torch.Tensor | slice
    """(requests × queries,) rows of the step; a slice where they follow each other, so that nothing is copied."""
    requests: int
    queries: int
    """Of each request."""
    units: torch.Tensor
    """(layers of the group, …) units of the cache as it arranges them, padded with any unit."""
    mask: torch.Tensor
    """(requests, 1, query heads of a KV head × queries, keys), 0 or -∞, in the activation type."""

    def attend(self, queries: torch.Tensor, cache: KvCache, place: int, sinks: torch.Tensor | None) -> torch.Tensor:
        """(requests × queries, heads, head_dim), like the queries.

        Heads that share a KV head are laid out as more queries of it, so that keys and values are not repeated.
        """
        _, heads, head_dim = queries.shape
        kv_heads = cache.kv_heads
        group, count = heads // kv_heads, self.queries
        keys, values = cache.gathered(self.units[place], self.requests)
        grouped = queries.reshape(self.requests, count, kv_heads, group, head_dim).permute(0, 2, 3, 1, 4)
        grouped = grouped.reshape(self.requests, kv_heads, group * count, head_dim)
        if sinks is None:
            mixed = functional.scaled_dot_product_attention(grouped, keys, values, attn_mask=self.mask)
        else:
            each = sinks.view(1, kv_heads, group, 1, 1).expand(self.requests, -1, -1, count, 1)
            mixed = _attend_with_sinks(grouped, keys, values, self.mask, each.flatten(2, 3))
        mixed = mixed.reshape(self.requests, kv_heads, group, count, head_dim).permute(0, 3, 1, 2, 4)
        return mixed.reshape(-1, heads, head_dim)


@dataclass(frozen=True, slots=True, eq=False)
class GatheredPlan:
    """Slots and attention of one window group in one step."""

    slots: torch.Tensor
    """(layers of the group, …): where the step's own keys and values go, as the cache has them by layer."""
    rows: tuple[GatheredRows, ...]

    def attend(self, queries: torch.Tensor, cache: KvCache, place: int, sinks: torch.Tensor | None) -> torch.Tensor:
        """As `AttentionPlan` says."""
        if len(self.rows) == 1 and isinstance(self.rows[0].rows, slice):
            return self.rows[0].attend(queries, cache, place, sinks)
        mixed = torch.empty_like(queries)
        for alike in self.rows:
            mixed[alike.rows] = alike.attend(queries[alike.rows], cache, place, sinks)
        return mixed


def _attend_with_sinks(
    queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor, sinks: torch.Tensor
) -> torch.Tensor:
    """Attention whose softmax has one more logit a query, `sinks` (requests, KV heads, queries, 1) (gpt-oss)."""
    scores = queries @ keys.transpose(2, 3) * queries.shape[-1] ** -0.5 + mask
    weights = torch.cat((scores, sinks.to(scores.dtype)), dim=-1).softmax(dim=-1)
    return weights[..., :-1] @ values
