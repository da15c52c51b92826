"""A request's KV cache in host memory: how it lies there, and what of it is kept."""

import torch

from agents.engines.torch_engine.block_table import WindowGroup
from agents.vllm_engine.exchange import KvFacts


def first_kept_token(window: int, tokens: int) -> int:
    """Return the first token that a layer keeps of a request with `tokens` in its cache."""
    return WindowGroup(window, ()).first_kept_token(tokens)


def empty_kv(facts: KvFacts, tokens: int) -> torch.Tensor:
    """(2, layers, tokens, KV heads, head_dim) in host memory."""
    shape = (2, len(facts.windows), tokens, facts.kv_heads, facts.head_dim)
    dtype = getattr(torch, facts.dtype.removeprefix("torch."))
    return torch.empty(shape, dtype=dtype, pin_memory=facts.is_pinned)
