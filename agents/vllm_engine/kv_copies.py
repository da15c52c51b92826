"""Copies between the KV blocks of one rank of vLLM and host memory, by torch alone, between steps."""

from typing import Any

import torch

from agents.engines.vllm_stage.kv_places import KvPlaces
from agents.vllm_engine.exchange import first_kept_token
from agents.vllm_engine.kv_book import Blocks
from agents.vllm_engine.kv_ranks import KvLayers

_SPAN = 512
"""Tokens that are copied at once: their places take eight bytes for each number of the cache."""


class KvCopies:
    """vLLM shows each layer's cache as (blocks, KV heads, tokens of a block, 2 * head_dim), keys before values; on CPUs
    its kernels order the numbers inside a block in a way of their own, which `KvPlaces` finds out."""

    def __init__(self, kv: KvLayers, caches: dict[str, torch.Tensor], layers: dict[str, Any]) -> None:
        """`caches`, `layers`: by vLLM's names of layers, tensors and attention modules with their kernels set up.

        Raises ValueError for a cache that lies in another way."""
        facts, self._groups = kv.facts, kv.groups
        self._facts = facts
        self._caches = [caches[name] for name in kv.names]
        expected = (facts.kv_heads, facts.block_tokens, 2 * facts.head_dim)
        for name, cache in zip(kv.names, self._caches, strict=True):
            if tuple(cache.shape[1:]) != expected or str(cache.dtype) != facts.dtype:
                raise ValueError(f"vLLM's KV cache of {name} is {tuple(cache.shape)} {cache.dtype}, not {expected}")
        self._places: KvPlaces | None = None
        if self._caches[0].device.type == "cpu":
            sizes = (facts.block_tokens, facts.kv_heads, facts.head_dim, self._caches[0].dtype)
            self._places = KvPlaces(layers[kv.names[0]], *sizes)

    def read(self, blocks: Blocks, kv: torch.Tensor) -> None:
        """Read a request with as many tokens in its blocks as `kv` has, which is on the host: (2, layers, tokens, KV
        heads, head_dim) of this rank."""
        tokens = kv.shape[2]
        for layer, first in enumerate(self._firsts(tokens)):
            for span in _spans(first, tokens):
                kv[:, layer, span.start : span.stop] = self._span(layer, blocks, span)

    def write(self, blocks: Blocks, kv: torch.Tensor, first: int) -> None:
        """Write what `read` returned, from token `first` on."""
        tokens = kv.shape[2]
        for layer, kept in enumerate(self._firsts(tokens)):
            for span in _spans(max(first, kept), tokens):
                self._put(layer, blocks, span, kv[:, layer, span.start : span.stop])

    def _firsts(self, tokens: int) -> list[int]:
        return [first_kept_token(window, tokens) for window in self._facts.windows]

    def _span(self, layer: int, blocks: Blocks, span: range) -> torch.Tensor:
        """(2, tokens, KV heads, head_dim)"""
        cache, (of_token, offsets) = self._caches[layer], self._at(layer, blocks, span)
        if self._places is not None:
            return cache.view(-1)[self._places.of(of_token, span.start, slice(None))]
        rows = cache[of_token, :, offsets]  # (tokens, KV heads, 2 * head_dim)
        return rows.view(*rows.shape[:2], 2, -1).permute(2, 0, 1, 3)

    def _put(self, layer: int, blocks: Blocks, span: range, kv: torch.Tensor) -> None:
        cache, (of_token, offsets) = self._caches[layer], self._at(layer, blocks, span)
        if self._places is not None:
            cache.view(-1)[self._places.of(of_token, span.start, slice(None))] = kv
        else:
            cache[of_token, :, offsets] = torch.cat(tuple(kv.to(cache.device, non_blocking=True)), dim=-1)

    def _at(self, layer: int, blocks: Blocks, span: range) -> tuple[torch.Tensor, torch.Tensor]:
        """(tokens,) the block of each token and its place in it, on the cache's device."""
        block_tokens = self._facts.block_tokens
        tokens = torch.arange(span.start, span.stop)
        of_token = torch.tensor(blocks[self._groups[layer]])[tokens // block_tokens]
        device = self._caches[layer].device
        return of_token.to(device), (tokens % block_tokens).to(device)


def _spans(first: int, end: int) -> list[range]:
    return [range(start, min(end, start + _SPAN)) for start in range(first, end, _SPAN)]
