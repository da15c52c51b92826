"""Plan of which rows of a step attend to which parts of the KV cache: made once a step, shared by layers of one
window."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch.nn.utils.rnn import pad_sequence

from agents.engines.batch import StepBatch, StepRequest
from agents.engines.torch_engine.block_table import BLOCK_TOKENS
from agents.engines.torch_engine.kv_cache import KvCache

_GATHERED_BYTES = 2 << 20
"""On a CPU, keys and values of as many bytes are attended to while they are in its caches, before more are gathered."""


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
    """Slots and attention of one window group in one step."""

    slots: torch.Tensor
    """(layers of the group, tokens): where the step's own keys and values go."""
    rows: tuple[AttentionRows, ...]


def attention_plans(cache: KvCache, batch: StepBatch, heads_per_kv_head: int) -> tuple[AttentionPlan, ...]:
    """One a window group, in the cache's order. The cache must have room for the batch."""
    return tuple(_plan(cache, batch, group, heads_per_kv_head) for group in range(len(cache.groups)))


def _plan(cache: KvCache, batch: StepBatch, group: int, heads_per_kv_head: int) -> AttentionPlan:
    slots = torch.empty(len(cache.groups[group].layers), batch.tokens, dtype=torch.int64)
    alike = tuple(_Alike(members) for members in _members(cache, batch, group))
    for members in alike:
        slots[:, members.rows] = members.slots
    window = cache.groups[group].window
    rows = tuple(members.attention(window, heads_per_kv_head, cache.keys) for members in alike)
    return AttentionPlan(slots.to(cache.keys.device), rows)


@dataclass(frozen=True, slots=True, eq=False)
class _Member:
    row: int
    """Its first in the step."""
    request: StepRequest
    units: torch.Tensor
    """(blocks, layers) that it has up to its last token of the step."""
    first_block: int


def _members(cache: KvCache, batch: StepBatch, group: int) -> Iterator[list[_Member]]:
    """Requests by query count and power of two of blocks, so that padding at most doubles what is read."""
    alike: dict[tuple[int, int], list[_Member]] = {}
    row = 0
    for request in batch.requests:
        held = cache.table(request.id).blocks[group]
        end = -(-(request.position + request.tokens) // BLOCK_TOKENS)
        member = _Member(row, request, held.units[: end - held.first_block], held.first_block)
        alike.setdefault((request.tokens, len(member.units).bit_length()), []).append(member)
        row += request.tokens
    for members in alike.values():
        most = _most_at_once(cache, max(len(member.units) for member in members))
        yield from (members[i : i + most] for i in range(0, len(members), most))


def _most_at_once(cache: KvCache, blocks: int) -> int:
    """Requests of so many blocks whose keys and values are gathered together."""
    if cache.keys.device.type != "cpu":
        return sys.maxsize
    return max(1, _GATHERED_BYTES // (2 * blocks * cache.keys[:1].nbytes))


class _Alike:
    """Places of requests with equally many queries; small index tensors, on the CPU."""

    def __init__(self, members: list[_Member]) -> None:
        queries = torch.arange(members[0].request.tokens)
        self.rows = (torch.tensor([member.row for member in members])[:, None] + queries).flatten()
        self.query_at = torch.tensor([member.request.position for member in members])[:, None] + queries
        """(requests, queries) positions."""
        self.first_block = torch.tensor([member.first_block for member in members])[:, None]
        self.units = pad_sequence([member.units for member in members], batch_first=True)
        """(requests, blocks, layers), padded with unit 0."""

    @property
    def slots(self) -> torch.Tensor:
        """(layers, requests × queries): where their own keys and values go."""
        request = torch.arange(len(self.units))[:, None]
        units = self.units[request, self.query_at // BLOCK_TOKENS - self.first_block]
        return (units * BLOCK_TOKENS + self.query_at[:, :, None] % BLOCK_TOKENS).flatten(0, 1).T

    def attention(self, window: int, heads_per_kv_head: int, like: torch.Tensor) -> AttentionRows:
        """Return their attention in layers of one window, on the device and in the data type of `like`. Places and
        positions go there, and the mask is made of them: it is as large as all queries times all keys."""
        requests, blocks, _ = self.units.shape
        first = self.first_block.to(like.device) * BLOCK_TOKENS
        key_at = (first + torch.arange(blocks * BLOCK_TOKENS, device=like.device))[:, None, None, :]
        query_at = self.query_at.to(like.device)[:, None, :, None]
        seen = key_at <= query_at
        if window:
            seen &= key_at > query_at - window
        mask = torch.zeros(seen.shape, dtype=like.dtype, device=like.device).masked_fill_(~seen, float("-inf"))
        return AttentionRows(
            rows=_slice(self.rows) or self.rows.to(like.device),
            requests=requests,
            queries=self.query_at.shape[1],
            units=self.units.flatten(0, 1).T.contiguous().to(like.device),
            mask=mask.repeat(1, 1, heads_per_kv_head, 1),
        )


def _slice(rows: torch.Tensor) -> slice | None:
    """The rows as a slice, where they are consecutive."""
    first = int(rows[0])
    consecutive = torch.equal(rows, torch.arange(first, first + len(rows)))
    return slice(first, first + len(rows)) if consecutive else None
