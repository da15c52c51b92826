"""The layers of one rank of a vLLM engine whose KV cache can be handed over."""

from typing import Any

import torch
from vllm.model_executor.models.utils import extract_layer_index
from vllm.v1.kv_cache_interface import (
    AttentionSpec,
    FullAttentionSpec,
    MLAAttentionSpec,
    SlidingWindowSpec,
    UniformTypeKVCacheSpecs,
)

from agents.vllm_engine.exchange import KvFacts
from agents.vllm_engine.kv_ranks import Heads, KvLayers

_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def kv_layers(kv_cache_config: Any, heads: Heads) -> KvLayers | str:
    """Return what a rank keeps, or why nothing of it is handed over."""
    found = []
    for number, group in enumerate(kv_cache_config.kv_cache_groups):
        for name in group.layer_names:
            spec = group.kv_cache_spec
            found.append((name, number, spec.kv_cache_specs[name] if _is_uniform(spec) else spec))
    kinds = {type(spec).__name__ for _, _, spec in found}
    if not found or not all(_is_plain(spec) for _, _, spec in found):
        return f"KV cache of another kind than keys and values of every token is not handed over: {sorted(kinds)}"
    found.sort(key=lambda one: extract_layer_index(one[0]))
    first = extract_layer_index(found[0][0])
    if [extract_layer_index(name) for name, *_ in found] != list(range(first, first + len(found))):
        return "some layers of the model keep no KV cache of their own, so none is handed over"
    sizes = {(spec.num_kv_heads, spec.head_size, spec.dtype, spec.block_size) for *_, spec in found}
    if len(sizes) > 1:
        return f"layers whose KV heads, their size, data type or blocks differ are not handed over: {sorted(sizes)}"
    ((kv_heads, head_dim, dtype, block_tokens),) = sizes
    windows = tuple(getattr(spec, "sliding_window", None) or 0 for *_, spec in found)
    facts = KvFacts(kv_heads, head_dim, str(dtype), block_tokens, windows, torch.cuda.is_available())
    names, groups = tuple(name for name, *_ in found), tuple(number for _, number, _ in found)
    return KvLayers(names, groups, first, heads, facts)


def _is_uniform(spec: Any) -> bool:
    return isinstance(spec, UniformTypeKVCacheSpecs)


def _is_plain(spec: Any) -> bool:
    """Tell whether keys and values lie there for every token and head, in numbers that other engines read."""
    if not isinstance(spec, FullAttentionSpec | SlidingWindowSpec) or isinstance(spec, MLAAttentionSpec):
        return False
    return _is_dense(spec) and not getattr(spec, "attention_chunk_size", None)


def _is_dense(spec: AttentionSpec) -> bool:
    is_whole = spec.head_size_v == spec.head_size and spec.tokens_per_state == 1 and spec.num_head_slots is None
    return is_whole and spec.state_content_bytes is None and spec.dtype in _DTYPES
