"""How a request's KV cache is cut for its way, and how a chunk is announced."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

import torch

from agents.engines.kv_part import KvPart
from agents.engines.protocol import StageEngine
from agents.engines.stage_facts import StageFacts

MAX_CHUNK_BYTES = 64 << 20
"""Of a peer's chunk: bounds what a receiving end allocates."""


@dataclass(frozen=True, slots=True)
class ChunkHeader:
    """Goes ahead of a chunk, as eight int64."""

    run: int
    """As the receiving end calls it."""
    index: int
    """Among the chunks of the run on this link."""
    part: KvPart

    def tensor(self) -> torch.Tensor:
        part = self.part
        fields = (part.first_layer, part.layers, part.first_head, part.heads, part.first_token, part.tokens)
        return torch.tensor((self.run, self.index, *fields), dtype=torch.int64)

    @classmethod
    def of(cls, received: torch.Tensor) -> "ChunkHeader":
        """Raises ValueError for what is no part of a KV cache."""
        run, index, *fields = received.tolist()
        return cls(run, index, KvPart(*fields))


HEADER_FIELDS = 8


def token_bytes(facts: StageFacts, dtype: torch.dtype) -> int:
    """Keys and values of one token in one layer."""
    return 2 * facts.kv_heads * facts.head_dim * dtype.itemsize


def cut(engine: StageEngine, tokens: int, first_layer: int, layers: int, chunk_bytes: int) -> Iterator[KvPart]:
    """What `layers` from `first_layer` on keep of `tokens` tokens, each position of each layer once, in chunks of at
    most `chunk_bytes` (but at least one block)."""
    facts = engine.facts
    one_token = token_bytes(facts, facts.dtype)
    held = range(first_layer, first_layer + layers)
    for first_token, group in groupby(held, key=lambda layer: engine.first_kept_token(layer, tokens)):
        same = list(group)
        kept = tokens - first_token
        if kept < 1:
            continue  # a window so short that the next token sees none of these
        at_once = max(1, chunk_bytes // (kept * one_token))
        longest = max(1, chunk_bytes // one_token // facts.block_tokens) * facts.block_tokens
        for layer in range(same[0], same[0] + len(same), at_once):
            count = min(at_once, same[0] + len(same) - layer)
            if kept * one_token <= chunk_bytes:
                yield KvPart(layer, count, facts.first_kv_head, facts.kv_heads, first_token, kept)
                continue
            start = first_token
            while start < tokens:
                end = min(tokens, (start // facts.block_tokens) * facts.block_tokens + longest)
                yield KvPart(layer, 1, facts.first_kv_head, facts.kv_heads, start, end - start)
                start = end
