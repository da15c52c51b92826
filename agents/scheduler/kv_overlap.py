"""Layers that workers of two instances share, and whether KV cache can go from one to the other."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agents.messages.kv_shape import KvShape
from agents.scheduler.workers import WorkerPlace

_DTYPES = ("torch.float32", "torch.bfloat16", "torch.float16")
"""Each can be turned into each other; what is lost is what the receiving engine would not have kept either."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """Layers that worker `source` of one and worker `target` of the other instance both hold."""

    source: WorkerPlace
    target: WorkerPlace
    first_layer: int
    layers: int


def overlaps(source: KvShape, nodes: Sequence[int], target: KvShape, target_nodes: Sequence[int]) -> Iterator[Overlap]:
    """Every layer once. `nodes`: the request's peer of each stage, here and there."""
    theirs = list(_held(target, target_nodes))
    for mine, first_layer, layers in _held(source, nodes):
        for their, their_first, their_layers in theirs:
            first = max(first_layer, their_first)
            end = min(first_layer + layers, their_first + their_layers)
            if first < end:
                yield Overlap(mine, their, first, end - first)


def has_peers(shape: KvShape, nodes: Sequence[int]) -> bool:
    """Tell whether these can be a request's peers there, one of each stage."""
    return len(nodes) == len(shape.stages) and all(
        node < stage.nodes for node, stage in zip(nodes, shape.stages, strict=True)
    )


def has_place(shape: KvShape, place: WorkerPlace) -> bool:
    if place.stage >= len(shape.stages) or place.node >= shape.stages[place.stage].nodes:
        return False
    return place.part < len(shape.stages[place.stage].parts(place.node))


def mismatch(source: KvShape, target: KvShape) -> str:
    """Return why no KV cache can be handed over; empty where it can."""
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
            if stage.cuts and (len(stage.cuts) != stage.nodes or any(sum(cut) != stage.layers for cut in stage.cuts)):
                return f"the parts of {stage} do not make its layers"
        if shape.dtype not in _DTYPES:
            return f"a KV cache in {shape.dtype} cannot be handed over, only in {', '.join(_DTYPES)}"
    ends = [shape.stages[-1].first_layer + shape.stages[-1].layers for shape in (source, target)]
    return "" if ends[0] == ends[1] else f"one instance holds {ends[0]} layers, the other {ends[1]}"


def _held(shape: KvShape, nodes: Sequence[int]) -> Iterator[tuple[WorkerPlace, int, int]]:
    """Each worker that has KV cache of the request, with its first layer and how many."""
    for stage, (held, node) in enumerate(zip(shape.stages, nodes, strict=True)):
        for part, (first_layer, layers) in enumerate(held.parts(node)):
            yield WorkerPlace(stage, node, part), first_layer, layers
