"""Memory that chunks are copied through, where an engine lends none of its own."""

import torch

from agents.engines.kv_part import KvPart
from agents.engines.stage_facts import StageFacts


class Frame:
    def __init__(self, chunk_bytes: int) -> None:
        self._memory = torch.empty(chunk_bytes, dtype=torch.uint8)
        self._bytes = self._memory.numpy().data

    def kv(self, part: KvPart, facts: StageFacts, dtype: torch.dtype) -> tuple[torch.Tensor, memoryview]:
        """(2, layers, tokens, heads, head_dim), and its bytes."""
        size = part.kv_bytes(facts.head_dim, dtype)
        return self._memory[:size].view(dtype).view(part.shape(facts.head_dim)), self._bytes[:size]
