"""Steps that are done once before any request comes, for what the first of their kind takes: kernels are compiled."""

import torch

from agents.engines.batch import StepBatch, StepRequest
from agents.engines.protocol import StageEngine

PROMPTS = (16, 64, 256)
"""Tokens: kernels for few rows of an expert, and for many, are compiled apart."""
REQUESTS = (1, 2, 4, 8, 16, 32, 64)
"""With a token each: keys of fewer are cut into more parts."""


def warm_up(engine: StageEngine) -> None:
    """Do them as far as there is room in the KV cache, which is free again after."""
    batches: list[tuple[StepRequest, ...]] = [(StepRequest("warm-up 0", 0, tokens),) for tokens in PROMPTS]
    batches += [tuple(StepRequest(f"warm-up {n}", 0, 1) for n in range(count)) for count in REQUESTS]
    for requests in batches:
        batch = StepBatch(requests)
        if not engine.kv_blocks_short(batch) and _is_within(engine, requests):
            engine.step(batch, _rows(engine, batch.tokens))
        for request in requests:
            engine.free(request.id)


def _is_within(engine: StageEngine, requests: tuple[StepRequest, ...]) -> bool:
    most = engine.facts.max_context_tokens
    return not most or max(request.tokens for request in requests) <= most


def _rows(engine: StageEngine, tokens: int) -> torch.Tensor:
    facts = engine.facts
    if facts.held.first:
        return torch.zeros(tokens, dtype=torch.int64)
    return torch.zeros(tokens, facts.hidden_size, dtype=facts.dtype)
