"""The KV cache of one engine in a pool that engines of several models share (MuxServe, section 3.4).

A block of the pool holds keys or values of one KV head of one layer, of as many tokens as fill it. So all blocks are
alike, whatever the layers, heads and data types of a model, and no model keeps a room of its own.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch

from agents.engines.torch_engine.block_pool import Blocks
from agents.engines.torch_engine.block_table import WindowGroup
from agents.engines.torch_engine.decoder_config import DecoderConfig
from agents.engines.torch_engine.kv_cache import KvCache
from agents.engines.torch_engine.request_blocks import RequestBlocks
from agents.kv_pool.block_layout import block_tokens
from agents.kv_pool.lent_pool import LentPool

KEYS, VALUES = 0, 1


class HeadwiseCache(KvCache):
    """Blocks of a pool, on a CPU. Requests share none, and what they hold does not lie side by side."""

    def __init__(
        self,
        groups: tuple[WindowGroup, ...],
        pool: Blocks,
        memory: torch.Tensor,
        kv_heads: int,
        head_dim: int,
        dtype: torch.dtype,
    ) -> None:
        """`memory`: (blocks, bytes) uint8, of the whole pool. Raises ValueError where rows of a head do not fill its
        blocks."""
        tokens = block_tokens(memory.shape[1], head_dim * dtype.itemsize)
        wide = tuple(WindowGroup(group.window, group.layers, tokens, 2 * kv_heads) for group in groups)
        RequestBlocks.__init__(self, wide, _ClearedBlocks(pool, memory))
        self.kv_heads = kv_heads
        self.keys = self.values = memory.view(dtype).view(len(memory), tokens, head_dim)

    @property
    def shares(self) -> bool:
        return False

    @property
    def lends(self) -> bool:
        return False

    @property
    def block_bytes(self) -> int:
        return 2 * self.kv_heads * self.keys[:1].nbytes

    @property
    def flat_keys(self) -> torch.Tensor:
        """(blocks × tokens of a block, head_dim): keys and values alike."""
        return self.keys.flatten(0, 1)

    def slots(self, request_id: str, layer: int, first_token: int, tokens: int) -> torch.Tensor:
        """(2, KV heads, tokens): keys, and values."""
        group, place = self.place_of[layer]
        own, held = self.groups[group], self.table(request_id).blocks[group]
        tokens_at = torch.arange(first_token, first_token + tokens)
        with self._changing:
            blocks = held.units[tokens_at // own.block_tokens - held.first_block]
        of_layer = blocks[:, place * own.width : (place + 1) * own.width]
        places = of_layer * own.block_tokens + (tokens_at % own.block_tokens)[:, None]
        return places.T.reshape(2, self.kv_heads, tokens)

    def keep(self, slots: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> None:
        for side, rows in ((KEYS, keys), (VALUES, values)):
            self.flat_keys.index_copy_(0, slots[side].flatten(), rows.transpose(0, 1).flatten(0, 1))

    def gathered(self, units: torch.Tensor, requests: int) -> tuple[torch.Tensor, torch.Tensor]:
        shape = (requests, self.kv_heads, -1, self.keys.shape[-1])
        keys, values = (self.keys.index_select(0, units[side]).view(shape) for side in (KEYS, VALUES))
        return keys, values

    def arranged(self, units: torch.Tensor) -> torch.Tensor:
        """(requests, blocks, layers × 2 × KV heads) → (layers, 2, requests × KV heads × blocks)"""
        requests, blocks, _ = units.shape
        return units.view(requests, blocks, -1, 2, self.kv_heads).permute(2, 3, 0, 4, 1).flatten(2).contiguous()

    def by_layer(self, slots: torch.Tensor) -> torch.Tensor:
        """(layers × 2 × KV heads, tokens) → (layers, 2, KV heads, tokens)"""
        return slots.view(-1, 2, self.kv_heads, slots.shape[1])


@dataclass(frozen=True, slots=True, eq=False)
class _ClearedBlocks:
    """Blocks of a pool, cleared as they are taken: what another model left there may be no numbers in the type of this
    one, and attention multiplies with 0 what it masks."""

    pool: Blocks
    memory: torch.Tensor

    @property
    def free(self) -> int:
        return self.pool.free

    def take(self, count: int) -> list[int]:
        taken = self.pool.take(count)
        self.memory[taken] = 0
        return taken

    def share(self, units: Iterable[int]) -> None:
        self.pool.share(units)

    def give_back(self, units: Iterable[int]) -> None:
        self.pool.give_back(units)


def headwise_cache(
    config: DecoderConfig, groups: tuple[WindowGroup, ...], kv_heads: int, like: torch.Tensor, pool: LentPool
) -> HeadwiseCache:
    """Raises ValueError for a model that keeps more than keys and values of its tokens, off a CPU, and as
    `HeadwiseCache`."""
    if not like.is_cpu or config.encoded_tokens:
        what = "an encoder's rows" if config.encoded_tokens else f"a KV cache on {like.device}"
        raise ValueError(f"a pool that models share holds keys and values of tokens on a CPU, not {what}")
    memory = torch.frombuffer(pool.memory, dtype=torch.uint8).view(-1, pool.block_bytes)
    return HeadwiseCache(groups, pool.blocks, memory, kv_heads, config.head_dim, like.dtype)
