"""Attention of a decoder's layer to what an encoder made of the request."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from agents.engines.batch import StepBatch, StepRequest
from agents.engines.torch_engine.block_table import BLOCK_TOKENS
from agents.engines.torch_engine.gathered_attention import GatheredPlan, GatheredRows
from agents.engines.torch_engine.kv_cache import KvCache
from agents.engines.torch_engine.linear import Projection

_AT_ONCE = 8
"""Requests whose keys and values are gathered together: of Whisper's they are some megabytes each."""


@dataclass(frozen=True, slots=True, eq=False)
class EncoderAttention:
    """One layer's block, for the heads held here. Keys and values of the encoder's rows lie in the KV cache from the
    request's first step on, in units of the same pool as those of its tokens."""

    norm: Callable[[torch.Tensor], torch.Tensor]
    query: Projection
    key_value: Projection
    """Rows of all keys, then values."""
    output: Projection
    heads: int
    head_dim: int

    def keep(self, encoded: torch.Tensor, cache: KvCache, slots: torch.Tensor) -> None:
        """Write keys and values of (rows, width) to `slots` (rows,)."""
        keys, values = self.key_value(encoded).view(len(encoded), 2, self.heads, self.head_dim).unbind(1)
        cache.flat_keys.index_copy_(0, slots, keys)
        cache.flat_values.index_copy_(0, slots, values)

    def __call__(self, rows: torch.Tensor, cache: KvCache, plan: GatheredPlan, place: int) -> torch.Tensor:
        """(tokens, hidden) → (tokens, hidden)"""
        queries = self.query(self.norm(rows)).view(len(rows), self.heads, self.head_dim)
        return self.output(plan.attend(queries, cache, place, None).flatten(1))


def encoded_slots(cache: KvCache, request_id: str, place: int) -> torch.Tensor:
    """(rows,) places of a request's encoded rows in one layer, in `flat_keys` and `flat_values`."""
    row = torch.arange(cache.encoded_tokens)
    units = cache.encoded_units(request_id)[row // BLOCK_TOKENS, place]
    return (units * BLOCK_TOKENS + row % BLOCK_TOKENS).to(cache.keys.device)


def encoded_plan(cache: KvCache, batch: StepBatch) -> GatheredPlan:
    """Plan of a step whose every token attends to all encoded rows of its request."""
    alike: dict[int, list[tuple[int, StepRequest]]] = {}
    row = 0
    for request in batch.requests:
        alike.setdefault(request.tokens, []).append((row, request))
        row += request.tokens
    blocks = -(-cache.encoded_tokens // BLOCK_TOKENS)
    hidden = torch.arange(blocks * BLOCK_TOKENS) >= cache.encoded_tokens
    mask = torch.zeros(1, 1, 1, len(hidden), dtype=cache.keys.dtype).masked_fill_(hidden, float("-inf"))
    mask = mask.to(cache.keys.device)
    groups = [
        members[i : i + _AT_ONCE] for members in alike.values() for i in range(0, len(members), _AT_ONCE)
    ]  # the order of rows in the step does not matter: each knows its places
    return GatheredPlan(torch.empty(0), tuple(_gathered(cache, members, mask) for members in groups))


def _gathered(cache: KvCache, members: list[tuple[int, StepRequest]], mask: torch.Tensor) -> GatheredRows:
    queries = members[0][1].tokens
    rows = (torch.tensor([row for row, _ in members])[:, None] + torch.arange(queries)).flatten()
    units = torch.cat([cache.encoded_units(request.id) for _, request in members]).T.contiguous()
    device = cache.keys.device
    return GatheredRows(rows.to(device), len(members), queries, units.to(device), mask)
