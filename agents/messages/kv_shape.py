"""How an instance holds a model's KV cache: what two schedulers tell each other before the first hand-off."""

from typing import Annotated

from msgspec import Meta, Struct

from agents.messages.bounds import Name, Position
from agents.messages.to_stage import MAX_PEERS


class StageLayers(Struct, frozen=True, array_like=True):
    """Layers [first_layer, first_layer + layers), on each of so many data-parallel nodes."""

    first_layer: Position
    layers: Annotated[int, Meta(ge=1, le=1 << 16)]
    nodes: Annotated[int, Meta(ge=1, le=MAX_PEERS)]


class KvShape(Struct, frozen=True, array_like=True):
    stages: Annotated[tuple[StageLayers, ...], Meta(min_length=1, max_length=MAX_PEERS)]
    kv_heads: Position
    head_dim: Position
    dtype: Name
    """As torch calls it."""
