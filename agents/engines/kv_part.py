"""A rectangle of one request's KV cache: what engines hand to each other whose cuts differ."""

import math
from dataclasses import dataclass

import torch

from agents.engines.stage_facts import StageFacts


@dataclass(frozen=True, slots=True)
class KvPart:
    """Layers [first_layer, +layers) × KV heads [first_head, +heads) × token positions [first_token, +tokens).

    On the wire it is one tensor of shape (2, layers, tokens, heads, head_dim), keys then values, in the exporter's KV
    data type. Positions, not blocks, so that engines with blocks of other sizes understand each other; callers cut at
    multiples of the block size to keep copies whole.
    """

    first_layer: int
    layers: int
    first_head: int
    heads: int
    first_token: int
    tokens: int

    def __post_init__(self) -> None:
        if (
            min(self.first_layer, self.first_head, self.first_token) < 0
            or min(self.layers, self.heads, self.tokens) < 1
        ):
            raise ValueError(f"a part of a KV cache has positive sizes and begins at 0 or later: {self}")

    def shape(self, head_dim: int) -> tuple[int, ...]:
        """Return the shape of the part's tensor."""
        return 2, self.layers, self.tokens, self.heads, head_dim

    def kv_bytes(self, head_dim: int, dtype: torch.dtype) -> int:
        return math.prod(self.shape(head_dim)) * dtype.itemsize


def empty_part(part: KvPart, facts: StageFacts) -> torch.Tensor:
    """(2, layers, tokens, heads, head_dim) on the CPU, for what an engine with these facts exports of the part."""
    return torch.empty(part.shape(facts.head_dim), dtype=facts.dtype)
