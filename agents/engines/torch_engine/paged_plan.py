"""Attention of a step that reads the paged cache where it lies, by a kernel."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.nn.utils.rnn import pad_sequence

from agents.engines.batch import StepBatch, StepRequest
from agents.engines.torch_engine.block_table import BLOCK_TOKENS
from agents.engines.torch_engine.kv_cache import KvCache
from agents.engines.torch_engine.kv_tables import KvTables

_TILE_ROWS = 64
"""Of a tile of queries: those of all heads that share a KV head."""


@dataclass(frozen=True, slots=True, eq=False)
class QueryTiles:
    """Queries that one launch attends with."""

    table: torch.Tensor
    """(tiles, 4) int32: request, first row, its position, and how many rows."""
    queries: int
    """Of a tile, at most."""


@dataclass(frozen=True, slots=True, eq=False)
class PagedPlan:
    """Slots and attention of one window group in one step: one operation a layer for all single tokens, and one for all
    chunks of prompts, however long the requests are."""

    slots: torch.Tensor
    """(layers of the group, tokens): where the step's own keys and values go."""
    tables: KvTables
    tiles: tuple[QueryTiles, ...]
    window: int

    def attend(self, queries: torch.Tensor, cache: KvCache, place: int, sinks: torch.Tensor | None) -> torch.Tensor:
        """As `AttentionPlan` says."""
        from agents.engines.torch_engine.kernels.paged_attention import attend

        queries = queries.contiguous()
        mixed = torch.empty_like(queries)
        units, first_block = self.tables.units[place], self.tables.first_block
        for each in self.tiles:
            attend(
                queries,
                cache.keys,
                cache.values,
                units,
                first_block,
                each.table,
                each.queries,
                self.window,
                sinks,
                mixed,
            )
        return mixed


def paged_plans(cache: KvCache, batch: StepBatch, heads_per_kv_head: int) -> tuple[PagedPlan, ...]:
    """One a window group, in the cache's order."""
    device = cache.keys.device
    tiles = _tiles(batch.requests, max(1, _TILE_ROWS // heads_per_kv_head), device)
    counts = torch.tensor([request.tokens for request in batch.requests])
    request = torch.arange(len(counts)).repeat_interleave(counts)
    position = torch.cat([torch.arange(r.position, r.position + r.tokens) for r in batch.requests])
    plans = []
    for group, members in enumerate(cache.groups):
        tables = _tables(cache, batch, group)
        slots = tables.slots(request, position).to(device)
        on_device = KvTables(tables.units.to(device), tables.first_block.to(device))
        plans.append(PagedPlan(slots, on_device, tiles, members.window))
    return tuple(plans)


def single_tiles(positions: torch.Tensor) -> QueryTiles:
    """One token of each request, which follow each other. `positions`: (requests,)."""
    number = torch.arange(len(positions), dtype=torch.int32, device=positions.device)
    table = torch.stack((number, number, positions.int(), torch.ones_like(number)), dim=1)
    return QueryTiles(table, 1)


def _tables(cache: KvCache, batch: StepBatch, group: int) -> KvTables:
    """On the CPU."""
    held = [cache.table(request.id).blocks[group] for request in batch.requests]
    ends = [-(-(request.position + request.tokens) // BLOCK_TOKENS) for request in batch.requests]
    used = [blocks.units[: end - blocks.first_block] for blocks, end in zip(held, ends, strict=True)]
    units = pad_sequence(used, batch_first=True).permute(2, 0, 1).int().contiguous()
    return KvTables(units, torch.tensor([blocks.first_block for blocks in held], dtype=torch.int32))


def _tiles(requests: Sequence[StepRequest], most: int, device: torch.device) -> tuple[QueryTiles, ...]:
    """Single tokens by themselves: a tile of a prompt would leave most of its rows empty."""
    singles, others, row = [], [], 0
    for number, request in enumerate(requests):
        if request.tokens == 1:
            singles.append((number, row, request.position, 1))
        for first in range(0, request.tokens if request.tokens > 1 else 0, most):
            count = min(most, request.tokens - first)
            others.append((number, row + first, request.position + first, count))
        row += request.tokens
    found = ((singles, 1), (others, most))
    return tuple(QueryTiles(torch.tensor(tiles, dtype=torch.int32).to(device), size) for tiles, size in found if tiles)
