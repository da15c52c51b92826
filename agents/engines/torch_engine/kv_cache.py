"""The paged KV cache of one engine: its memory, in which each request holds blocks."""

from collections.abc import Iterable
from functools import cached_property

import torch

from agents.engines.torch_engine.block_pool import BlockPool
from agents.engines.torch_engine.block_table import BLOCK_TOKENS, WindowGroup
from agents.engines.torch_engine.request_blocks import RequestBlocks


def window_groups(windows: Iterable[int]) -> tuple[WindowGroup, ...]:
    """Groups the held layers, whose windows these are in order."""
    layers: dict[int, list[int]] = {}
    for layer, window in enumerate(windows):
        layers.setdefault(window, []).append(layer)
    return tuple(WindowGroup(window, tuple(members)) for window, members in layers.items())


class KvCache(RequestBlocks):
    """Keys and values in units of BLOCK_TOKENS tokens of one layer, so that layers with a window, which keep less,
    leave their room to the others."""

    def __init__(
        self,
        groups: tuple[WindowGroup, ...],
        blocks: int,
        kv_heads: int,
        head_dim: int,
        like: torch.Tensor,
        encoded_tokens: int = 0,
    ) -> None:
        """Room for `blocks` blocks of all held layers, in the data type and on the device of `like`. `encoded_tokens`:
        as of `RequestBlocks`."""
        pool = BlockPool(blocks * sum(group.units for group in groups))
        super().__init__(groups, pool, encoded_tokens)
        self.kv_heads = kv_heads
        shape = (pool.units, BLOCK_TOKENS, kv_heads, head_dim)
        # Written to, not `torch.zeros`: a CPU's memory is there from now on, and not found missing under load.
        self.keys = torch.empty(shape, dtype=like.dtype, device=like.device).zero_()
        self.values = torch.empty(shape, dtype=like.dtype, device=like.device).zero_()

    @cached_property
    def memory(self) -> tuple[memoryview, memoryview]:
        """The bytes of keys and of values; on a CPU."""
        keys, values = (side.view(torch.uint8).flatten().numpy().data for side in (self.keys, self.values))
        return keys, values

    def slots(self, request_id: str, layer: int, first_token: int, tokens: int) -> torch.Tensor:
        """(tokens,) places of consecutive tokens in one held layer, in `flat_keys` and `flat_values`."""
        group, place = self.place_of[layer]
        held = self.table(request_id).blocks[group]
        tokens_at = torch.arange(first_token, first_token + tokens)
        with self._changing:
            units = held.units[tokens_at // BLOCK_TOKENS - held.first_block, place]
        return (units * BLOCK_TOKENS + tokens_at % BLOCK_TOKENS).to(self.keys.device)

    def units(self, request_id: str, layer: int, first_block: int, blocks: int) -> torch.Tensor:
        """(blocks,) places of consecutive blocks of one held layer, in `keys` and `values`."""
        group, place = self.place_of[layer]
        held = self.table(request_id).blocks[group]
        with self._changing:
            start = first_block - held.first_block
            units = held.units[start : start + blocks, place]
        return units.to(self.keys.device)

    @property
    def flat_keys(self) -> torch.Tensor:
        """(units × BLOCK_TOKENS, KV heads, head_dim)"""
        return self.keys.flatten(0, 1)

    @property
    def flat_values(self) -> torch.Tensor:
        return self.values.flatten(0, 1)

    @property
    def lends(self) -> bool:
        """Tell whether a request's keys and values lie side by side, as those who send them want them."""
        return True

    @property
    def block_bytes(self) -> int:
        """Bytes of keys and values of one block of one layer."""
        return 2 * self.keys[:1].nbytes

    def keep(self, slots: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Write (tokens, KV heads, head_dim) each. `slots`: of a layer, as `by_layer` has them."""
        self.flat_keys.index_copy_(0, slots, keys)
        self.flat_values.index_copy_(0, slots, values)

    def gathered(self, units: torch.Tensor, requests: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return keys and values of so many requests, (requests, KV heads, tokens, head_dim) each. `units`: of a
        layer, as `arranged` has them."""
        shape = (requests, -1, self.kv_heads, self.keys.shape[-1])
        keys = self.keys.index_select(0, units).view(shape).transpose(1, 2)
        return keys, self.values.index_select(0, units).view(shape).transpose(1, 2)

    def arranged(self, units: torch.Tensor) -> torch.Tensor:
        """(requests, blocks, layers) → (layers, requests × blocks)"""
        return units.flatten(0, 1).T.contiguous()

    def by_layer(self, slots: torch.Tensor) -> torch.Tensor:
        """(layers, tokens), as they are."""
        return slots
