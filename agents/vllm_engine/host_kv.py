"""A request's KV cache in host memory."""

import torch

from agents.vllm_engine.exchange import KvFacts


def empty_kv(facts: KvFacts, tokens: int) -> torch.Tensor:
    """(2, layers, tokens, KV heads, head_dim) in host memory."""
    shape = (2, len(facts.windows), tokens, facts.kv_heads, facts.head_dim)
    dtype = getattr(torch, facts.dtype.removeprefix("torch."))
    return torch.empty(shape, dtype=dtype, pin_memory=facts.is_pinned)
