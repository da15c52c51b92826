"""Places of a token's keys and values in vLLM's cache of one layer."""

from typing import Any

import torch

_BASE = 128
"""Digits 1 to 128 are whole numbers in every data type a cache may have."""


class KvPlaces:
    """Places of tokens in one layer's cache. vLLM's kernels order the elements of a block as suits the processor; the
    order is found by having vLLM write numbered elements into a small cache, so that a hand-off needs to know no
    kernel."""

    def __init__(self, layer: Any, block_tokens: int, kv_heads: int, head_dim: int, dtype: torch.dtype) -> None:
        """`layer`: an attention layer that has its kernels set up."""
        self._block_tokens = block_tokens
        shape = (2, block_tokens, kv_heads, head_dim)
        first, second = (_order(layer, shape, block, dtype) for block in (0, 1))
        self._block_elements = 2 * block_tokens * kv_heads * head_dim
        if not torch.equal(second, first + self._block_elements):
            raise ValueError("blocks of vLLM's KV cache do not lie one after the other")
        self._in_block = first

    def of(self, blocks: torch.Tensor, first_token: int, heads: slice) -> torch.Tensor:
        """(2, tokens, heads, head_dim) places in the flat cache, of consecutive tokens from `first_token` on.

        `blocks`: (tokens,) the block of each."""
        at = (torch.arange(first_token, first_token + len(blocks))) % self._block_tokens
        return self._in_block[:, at, heads] + (blocks * self._block_elements)[None, :, None, None]


def _order(layer: Any, shape: tuple[int, int, int, int], block: int, dtype: torch.dtype) -> torch.Tensor:
    """Return where each element of a block lies in the flat cache, in the order of `shape`."""
    _, tokens, heads, dim = shape
    count = 2 * tokens * heads * dim
    cache = torch.zeros(2, heads, tokens, 2 * dim, dtype=dtype)
    slots = torch.arange(tokens) + block * tokens
    numbers = torch.arange(count)
    found = torch.zeros(count, dtype=torch.int64)
    scale = 1
    while scale < count:
        digits = (numbers // scale % _BASE + 1).to(dtype).view(shape)
        layer.impl.do_kv_cache_update(layer, digits[0].contiguous(), digits[1].contiguous(), cache, slots)
        places = cache.flatten().nonzero()[:, 0]
        found += (cache.flatten()[places].to(torch.int64) - 1) * scale
        scale *= _BASE
    order = torch.empty(count, dtype=torch.int64)
    order[found] = places
    return order.view(shape)
