"""How an instance holds a model's KV cache: what two schedulers tell each other before the first hand-off."""

from typing import Annotated

from msgspec import Meta, Struct

from agents.messages.bounds import Name, Position
from agents.messages.to_stage import MAX_PARTS, MAX_PEERS

Layers = Annotated[int, Meta(ge=1, le=1 << 16)]
Cut = Annotated[tuple[Layers, ...], Meta(min_length=1, max_length=MAX_PARTS)]


class StageLayers(Struct, frozen=True, array_like=True):
    """Layers [first_layer, first_layer + layers), on each of so many data-parallel peers."""

    first_layer: Position
    layers: Layers
    nodes: Annotated[int, Meta(ge=1, le=MAX_PEERS)]
    cuts: Annotated[tuple[Cut, ...], Meta(max_length=MAX_PEERS)] = ()
    """Of each peer: layers of each of its parts, in order. None where each holds them in one."""

    def parts(self, node: int) -> tuple[tuple[int, int], ...]:
        """(first layer, layers) of each part of a peer."""
        cut = self.cuts[node] if node < len(self.cuts) else (self.layers,)
        return tuple((self.first_layer + sum(cut[:part]), layers) for part, layers in enumerate(cut))


class KvShape(Struct, frozen=True, array_like=True):
    stages: Annotated[tuple[StageLayers, ...], Meta(min_length=1, max_length=MAX_PEERS)]
    kv_heads: Position
    head_dim: Position
    dtype: Name
    """As torch calls it."""
