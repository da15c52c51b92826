"""One layer of an encoder: every row sees all rows of its segment."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn import functional

from agents.engines.torch_components.segments import Segments
from agents.engines.torch_engine.layer_reader import LayerReader
from agents.engines.torch_engine.linear import Linear, Projection, packed
from agents.engines.torch_engine.norm import Norm
from agents.engines.torch_engine.rope import rotate

Rotation = tuple[torch.Tensor, torch.Tensor]
"""Cosine and sine, each (rows, 1, head_dim / 2) fp32."""


@dataclass(frozen=True, slots=True, eq=False)
class FullAttention:
    query_key_value: Projection
    """Rows of all queries, then keys, then values."""
    output: Projection
    heads: int
    query_norm: Norm | None = None
    """Of all heads together."""
    key_norm: Norm | None = None

    def __call__(self, rows: torch.Tensor, segments: Segments, rotation: Rotation | None) -> torch.Tensor:
        """(rows, hidden) → (rows, hidden)"""
        queries, keys, values = self.query_key_value(rows).chunk(3, dim=-1)
        if self.query_norm is not None and self.key_norm is not None:
            queries, keys = self.query_norm(queries), self.key_norm(keys)
        query, key, value = (each.reshape(len(rows), self.heads, -1) for each in (queries, keys, values))
        if rotation is not None:
            query, key = (rotate(each.float(), *rotation).to(each) for each in (query, key))
        return self.output(segments.attend(query, key, value).flatten(1))


@dataclass(frozen=True, slots=True, eq=False)
class EncoderLayer:
    """x + a × attention(norm(x)), then x + b × feed_forward(norm(x)); a and b where the family has them."""

    attention_norm: Norm
    attention: FullAttention
    feed_forward_norm: Norm
    feed_forward: Callable[[torch.Tensor], torch.Tensor]
    attention_scale: torch.Tensor | None = None
    """(hidden,)"""
    feed_forward_scale: torch.Tensor | None = None

    def __call__(self, rows: torch.Tensor, segments: Segments, rotation: Rotation | None = None) -> torch.Tensor:
        """(rows, hidden) → (rows, hidden)"""
        mixed = self.attention(self.attention_norm(rows), segments, rotation)
        rows = rows + (mixed if self.attention_scale is None else mixed * self.attention_scale)
        fed = self.feed_forward(self.feed_forward_norm(rows))
        return rows + (fed if self.feed_forward_scale is None else fed * self.feed_forward_scale)


@dataclass(frozen=True, slots=True, eq=False)
class BiasedGatedMlp:
    """down(silu(gate(x)) × up(x)), with biases."""

    gate_up: Projection
    """Rows of gate, then of up."""
    down: Projection

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """(rows, hidden) → (rows, hidden)"""
        gate, up = self.gate_up(rows).chunk(2, dim=-1)
        return self.down(functional.silu(gate) * up)


def all_rows(*counts: int) -> tuple[tuple[int, slice], ...]:
    """Whole matrices of so many rows, as `LayerReader.into` takes them."""
    return tuple((count, slice(0, count)) for count in counts)


def patch_projection(reader: LayerReader, name: str, shape: tuple[int, ...], *, bias: bool) -> Linear:
    """A convolution whose steps are as long as its kernel is a product with flattened patches. `shape`: (hidden,
    channels, …) of its kernel."""
    weight = reader.tensor(f"{name}.weight", shape).flatten(1)
    return packed(weight, reader.tensor(f"{name}.bias", shape[:1]) if bias else None)
