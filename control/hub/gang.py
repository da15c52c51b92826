"""What the nodes of one instance run: the placement of its template, node by node."""

from dataclasses import dataclass, replace

import msgspec

from templates_lib.placement import PipelinePlacement
from templates_lib.template import ServingTemplate

BLOCK_TOKENS = 16
"""Of a KV block, in a placement (`templates_lib.placement`) and in the engines."""
PREFILL_BATCH = 32
"""Prompts of one group that a prefill node may hold at once: a placement states none. KV blocks bound it too."""
RESUME_CHUNK = 128
"""Prompt tokens a step of a decode node, which computes prompts only for requests that go on elsewhere."""


class UnplaceableError(ValueError):
    """The template cannot be run by what there is; the message says what it would need."""


@dataclass(frozen=True, slots=True)
class GangPlace:
    """One node of an instance; its number is its index in `Gang.places`."""

    config: str
    """Node configuration."""
    stage: int
    first_layer: int
    layers: int
    weight: float
    """Share of the stage's requests."""
    batch_cap: int
    chunk_tokens: int
    kv_blocks: int
    shards: int = 1
    """Devices of the node that its part is cut over."""
    whole_experts: bool = False


@dataclass(frozen=True, slots=True)
class Gang:
    places: tuple[GangPlace, ...]
    """Stage by stage. The scheduler runs on the first one's node."""
    engine: str
    dtype: str

    def with_kv_share(self, share: float) -> "Gang":
        """The same with less KV cache: for nodes that ran out of memory."""
        fewer = tuple(replace(place, kv_blocks=max(1, int(place.kv_blocks * share))) for place in self.places)
        return replace(self, places=fewer)


def gang_of(template: ServingTemplate) -> Gang:
    """Raises UnplaceableError for a placement of another kind, or one that splits a node in a way no engine does."""
    gang = placed_gang(template)
    pipeline = msgspec.convert(template.placement.payload, PipelinePlacement)
    for nodes in (nodes for stage in pipeline.stages for nodes in stage.nodes):
        if max(nodes.dp, nodes.pp) > 1 or nodes.ep not in (1, nodes.tp):
            raise UnplaceableError(
                f"template {template.id}: {nodes.config} is to be split {nodes.tp} x {nodes.dp} x {nodes.pp} x "
                f"{nodes.ep} (tensor, data, pipeline, expert parallel); node agents start one engine a node, cut "
                "over its devices by tensors or by experts"
            )
    return gang


def placed_gang(template: ServingTemplate) -> Gang:
    """The same whatever an engine can split, as for nodes that are simulated. Raises UnplaceableError for a placement
    of another kind."""
    placement = template.placement
    if placement.kind != "pipeline":
        raise UnplaceableError(f"template {template.id}: placements of kind {placement.kind!r} are not served yet")
    pipeline = msgspec.convert(placement.payload, PipelinePlacement)
    places: list[GangPlace] = []
    for number, stage in enumerate(pipeline.stages):
        for nodes in stage.nodes:
            place = GangPlace(
                nodes.config,
                number,
                stage.first_layer,
                stage.layers,
                nodes.weight,
                nodes.batch_cap or PREFILL_BATCH,
                nodes.chunk_tokens or max(RESUME_CHUNK, nodes.batch_cap),
                nodes.kv_blocks,
                nodes.tp,
                nodes.ep > 1,
            )
            places += [place] * nodes.count
    if not places:
        raise UnplaceableError(f"template {template.id}: its placement names no node")
    return Gang(tuple(places), template.engine, template.dtype)
