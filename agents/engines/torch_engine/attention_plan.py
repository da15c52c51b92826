"""Which rows of a step attend to which parts of the KV cache: made once a step, shared by layers of one window."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from agents.engines.batch import StepBatch, StepRequest
from agents.engines.torch_engine.block_table import BLOCK_TOKENS, GroupBlocks
from agents.engines.torch_engine.kv_cache import KvCache


@dataclass(frozen=True, slots=True, eq=False)
class AttentionRows:
    """Requests with equally many queries and about as many blocks: one batched product."""

    rows: torch.Tensor | slice
    """(requests × queries,) rows of the step; a slice where they follow each other, so that nothing is copied."""
    requests: int
    queries: int
    """Of each request."""
    units: torch.Tensor
    """(layers of the group, requests × blocks) units of the cache, padded with unit 0."""
    mask: torch.Tensor
    """(requests, 1, query heads of a KV head × queries, keys), 0 or -∞, in the activation type."""


@dataclass(frozen=True, slots=True, eq=False)
class AttentionPlan:
    """Of one window group."""

    slots: torch.Tensor
    """(layers of the group, tokens): where the step's own keys and values go."""
    rows: tuple[AttentionRows, ...]


def attention_plans(cache: KvCache, batch: StepBatch, heads_per_kv_head: int) -> tuple[AttentionPlan, ...]:
    """One a window group, in the cache's order. The cache must have room for the batch."""
    return tuple(_plan(cache, batch, group, heads_per_kv_head) for group in range(len(cache.groups)))


def _plan(cache: KvCache, batch: StepBatch, group: int, heads_per_kv_head: int) -> AttentionPlan:
    device = cache.keys.device
    held = [cache.table(request.id).blocks[group] for request in batch.requests]
    slots = [_slots(request, blocks) for request, blocks in zip(batch.requests, held, strict=True)]
    return AttentionPlan(
        slots=torch.cat(slots, dim=1).to(device),
        rows=tuple(_rows(cache, group, members, heads_per_kv_head) for members in _alike(batch, held)),
    )


def _slots(request: StepRequest, held: GroupBlocks) -> torch.Tensor:
    """(layers of the group, tokens of the request)"""
    first = request.position // BLOCK_TOKENS
    tokens = torch.arange(request.position, request.position + request.tokens)
    units = torch.tensor(held.units[first - held.first_block :])
    return units[tokens // BLOCK_TOKENS - first].T * BLOCK_TOKENS + tokens % BLOCK_TOKENS


Member = tuple[int, StepRequest, GroupBlocks]
"""First row of the request in the step, the request, its blocks."""


def _alike(batch: StepBatch, held: list[GroupBlocks]) -> Iterator[list[Member]]:
    """Requests by query count and power of two of blocks, so that padding at most doubles what is read."""
    alike: dict[tuple[int, int], list[Member]] = {}
    row = 0
    for request, blocks in zip(batch.requests, held, strict=True):
        alike.setdefault((request.tokens, len(blocks.units).bit_length()), []).append((row, request, blocks))
        row += request.tokens
    yield from alike.values()


def _rows(cache: KvCache, group: int, members: list[Member], heads_per_kv_head: int) -> AttentionRows:
    device = cache.keys.device
    blocks = max(len(held.units) for _, _, held in members)
    padding = [0] * len(cache.groups[group].layers)
    units = torch.tensor(
        [unit for _, _, held in members for unit in held.units + [padding] * (blocks - len(held.units))]
    )
    queries = torch.arange(members[0][1].tokens)
    rows = (torch.tensor([row for row, _, _ in members])[:, None] + queries).flatten()
    query_at = (torch.tensor([request.position for _, request, _ in members])[:, None] + queries)[:, None, :, None]
    begins = torch.tensor([held.first_block * BLOCK_TOKENS for _, _, held in members])
    key_at = (begins[:, None] + torch.arange(blocks * BLOCK_TOKENS))[:, None, None, :]
    seen = key_at <= query_at
    window = cache.groups[group].window
    if window:
        seen &= key_at > query_at - window
    mask = torch.zeros(seen.shape, dtype=cache.keys.dtype).masked_fill_(~seen, float("-inf"))
    return AttentionRows(
        rows=_slice(rows) or rows.to(device),
        requests=len(members),
        queries=len(queries),
        units=units.T.contiguous().to(device),
        mask=mask.repeat(1, 1, heads_per_kv_head, 1).to(device),
    )


def _slice(rows: torch.Tensor) -> slice | None:
    """The rows as a slice, where they are consecutive."""
    first = int(rows[0])
    consecutive = torch.equal(rows, torch.arange(first, first + len(rows)))
    return slice(first, first + len(rows)) if consecutive else None
