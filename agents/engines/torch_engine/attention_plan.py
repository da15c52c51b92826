"""Plan of which rows of a step attend to which parts of the KV cache: made once a step, shared by layers of one
window."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import torch

from agents.engines.batch import StepBatch, StepRequest
from agents.engines.torch_engine.block_table import BLOCK_TOKENS
from agents.engines.torch_engine.gathered_attention import GatheredPlan, GatheredRows
from agents.engines.torch_engine.kv_cache import KvCache
from agents.engines.torch_engine.kv_tables import KvTables
from agents.engines.torch_engine.paged_plan import PagedPlan, paged_plans, single_tiles
from agents.engines.torch_engine.triton_support import runs_triton
from templates_lib.cost.prompt_tiles import TILE_QUERIES

_GATHERED_BYTES = 2 << 20
"""On a CPU, keys and values of as many bytes are attended to while they are in its caches, before more are gathered."""


class AttentionPlan(Protocol):
    """Slots and attention of one window group in one step."""

    @property
    def slots(self) -> torch.Tensor:
        """Return where the step's own keys and values go: (layers of the group, tokens)."""

    def attend(self, queries: torch.Tensor, cache: KvCache, place: int, sinks: torch.Tensor | None) -> torch.Tensor:
        """Return (tokens, heads, head_dim), like the queries, in the layer at `place` of the group, whose own keys and
        values are in the cache. `sinks`: (heads,) logits that take part in the softmax and bring no value."""


def attention_plans(cache: KvCache, batch: StepBatch, heads_per_kv_head: int) -> tuple[AttentionPlan, ...]:
    """One a window group, in the cache's order. The cache must have room for the batch."""
    if runs_triton(cache.keys.device):
        return paged_plans(cache, batch, heads_per_kv_head)
    return tuple(_gathered(cache, batch, group, heads_per_kv_head) for group in range(len(cache.groups)))


def decode_plan(
    tables: KvTables, positions: torch.Tensor, window: int, heads_per_kv_head: int, like: torch.Tensor
) -> AttentionPlan:
    """The plan of a step with one token of each request, at `positions` (requests,), made on the device alone. `like`:
    the KV cache."""
    request = torch.arange(len(positions), device=positions.device)
    slots = tables.slots(request, positions)
    if runs_triton(positions.device):
        return PagedPlan(slots, tables, (single_tiles(positions),), window)
    _, requests, blocks = tables.units.shape
    first = tables.first_block[:, None, None, None] * BLOCK_TOKENS
    key_at = first + torch.arange(blocks * BLOCK_TOKENS, device=positions.device)
    mask = _mask(key_at, positions[:, None, None, None], window, like).expand(-1, -1, heads_per_kv_head, -1)
    return GatheredPlan(slots, (GatheredRows(slice(0, requests), requests, 1, tables.units.flatten(1), mask),))


def _gathered(cache: KvCache, batch: StepBatch, group: int, heads_per_kv_head: int) -> GatheredPlan:
    own = cache.groups[group]
    slots = torch.empty(own.units, batch.tokens, dtype=torch.int64)
    alike = tuple(_Alike(members, own.block_tokens) for members in _members(cache, batch, group))
    for members in alike:
        slots[:, members.rows] = members.slots
    rows = tuple(members.attention(cache, own.window, heads_per_kv_head) for members in alike)
    return GatheredPlan(cache.by_layer(slots).to(cache.keys.device), rows)


def _mask(key_at: torch.Tensor, query_at: torch.Tensor, window: int, like: torch.Tensor) -> torch.Tensor:
    """0 where a query sees a key, else -∞; positions broadcast together."""
    seen = key_at <= query_at
    if window:
        seen &= key_at > query_at - window
    return torch.zeros(seen.shape, dtype=like.dtype, device=like.device).masked_fill_(~seen, float("-inf"))


@dataclass(frozen=True, slots=True, eq=False)
class _Member:
    row: int
    """Its first in the step."""
    request: StepRequest
    units: torch.Tensor
    """(blocks, units of a block) that it has up to its last token of the step."""
    first_block: int


def _members(cache: KvCache, batch: StepBatch, group: int) -> Iterator[list[_Member]]:
    """Requests by query count and power of two of blocks, so that padding at most doubles what is read."""
    alike: dict[tuple[int, int], list[_Member]] = {}
    row = 0
    for request in _tiles(cache, batch):
        held = cache.table(request.id).blocks[group]
        end = -(-(request.position + request.tokens) // cache.groups[group].block_tokens)
        member = _Member(row, request, held.units[: end - held.first_block], held.first_block)
        alike.setdefault((request.tokens, len(member.units).bit_length()), []).append(member)
        row += request.tokens
    for members in alike.values():
        most = _most_at_once(cache, max(len(member.units) for member in members))
        yield from (members[i : i + most] for i in range(0, len(members), most))


def _tiles(cache: KvCache, batch: StepBatch) -> Iterator[StepRequest]:
    most = TILE_QUERIES if cache.keys.device.type == "cpu" else sys.maxsize
    for request in batch.requests:
        for done in range(0, request.tokens, most):
            yield StepRequest(request.id, request.position + done, min(most, request.tokens - done))


def _most_at_once(cache: KvCache, blocks: int) -> int:
    """Requests of so many blocks whose keys and values are gathered together."""
    if cache.keys.device.type != "cpu":
        return sys.maxsize
    return max(1, _GATHERED_BYTES // (blocks * cache.block_bytes))


class _Alike:
    """Places of requests with equally many queries; small index tensors, on the CPU."""

    def __init__(self, members: list[_Member], block_tokens: int) -> None:
        self._block_tokens = block_tokens
        queries = torch.arange(members[0].request.tokens)
        self.rows = (torch.tensor([member.row for member in members])[:, None] + queries).flatten()
        self.query_at = torch.tensor([member.request.position for member in members])[:, None] + queries
        """(requests, queries) positions."""
        self.first_block = torch.tensor([member.first_block for member in members])[:, None]
        self.units = torch.stack(
            [_padded(member.units, max(len(each.units) for each in members)) for member in members]
        )
        """(requests, blocks, units of a block), padded with the first of each: what others hold may be no numbers."""

    @property
    def slots(self) -> torch.Tensor:
        """(units of a block, requests × queries): where their own keys and values go."""
        request, tokens = torch.arange(len(self.units))[:, None], self._block_tokens
        units = self.units[request, self.query_at // tokens - self.first_block]
        return (units * tokens + self.query_at[:, :, None] % tokens).flatten(0, 1).T

    def attention(self, cache: KvCache, window: int, heads_per_kv_head: int) -> GatheredRows:
        """Return their attention in layers of one window, on the device and in the data type of the cache. Places and
        positions go there, and the mask is made of them: it is as large as all queries times all keys."""
        requests, blocks, _ = self.units.shape
        like, tokens = cache.keys, self._block_tokens
        first = self.first_block.to(like.device) * tokens
        key_at = (first + torch.arange(blocks * tokens, device=like.device))[:, None, None, :]
        mask = _mask(key_at, self.query_at.to(like.device)[:, None, :, None], window, like)
        return GatheredRows(
            rows=_slice(self.rows) or self.rows.to(like.device),
            requests=requests,
            queries=self.query_at.shape[1],
            units=cache.arranged(self.units).to(like.device),
            mask=mask.repeat(1, 1, heads_per_kv_head, 1),
        )


def _padded(units: torch.Tensor, blocks: int) -> torch.Tensor:
    return units if len(units) == blocks else torch.cat((units, units[:1].expand(blocks - len(units), -1)))


def _slice(rows: torch.Tensor) -> slice | None:
    """The rows as a slice, where they are consecutive."""
    first = int(rows[0])
    consecutive = torch.equal(rows, torch.arange(first, first + len(rows)))
    return slice(first, first + len(rows)) if consecutive else None
