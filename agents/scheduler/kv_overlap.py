"""Which stages of two instances hold the same layers, and whether KV cache can go from one to the other."""

from collections.abc import Iterator
from dataclasses import dataclass

from agents.messages.kv_shape import KvShape

_DTYPES = ("torch.float32", "torch.bfloat16", "torch.float16")
"""Each can be turned into each other; what is lost is what the receiving engine would not have kept either."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """Layers that stage `source` of one and stage `target` of the other instance both hold."""

    source: int
    target: int
    first_layer: int
    layers: int


def overlaps(source: KvShape, target: KvShape) -> Iterator[Overlap]:
    """Every layer once."""
    for s, mine in enumerate(source.stages):
        for t, theirs in enumerate(target.stages):
            first = max(mine.first_layer, theirs.first_layer)
            end = min(mine.first_layer + mine.layers, theirs.first_layer + theirs.layers)
            if first < end:
                yield Overlap(s, t, first, end - first)


def mismatch(source: KvShape, target: KvShape) -> str:
    """Why none can be handed over; empty where it can."""
    if (source.kv_heads, source.head_dim) != (target.kv_heads, target.head_dim):
        return (
            f"KV heads and their size are {source.kv_heads} and {source.head_dim} in the prefill instance, "
            f"{target.kv_heads} and {target.head_dim} in the decode instance"
        )
    for shape in (source, target):
        end = 0
        for stage in shape.stages:
            if stage.first_layer != end:
                return f"the stages of an instance hold {shape.stages}, which are no consecutive layers"
            end += stage.layers
        if shape.dtype not in _DTYPES:
            return f"a KV cache in {shape.dtype} cannot be handed over, only in {', '.join(_DTYPES)}"
    ends = [shape.stages[-1].first_layer + shape.stages[-1].layers for shape in (source, target)]
    return "" if ends[0] == ends[1] else f"one instance holds {ends[0]} layers, the other {ends[1]}"
