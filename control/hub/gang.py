"""What the nodes of one instance run: the placement of its template, node by node."""

from dataclasses import dataclass, replace

from templates_lib.sources.placement_kinds import PlacementError, unit_of
from templates_lib.values.placement import Stage, StageNodes
from templates_lib.values.template import ServingTemplate

BLOCK_TOKENS = 16
"""Of a KV block, in a placement (`templates_lib.values.placement`) and in the engines."""
_PREFILL_BATCH = 32
"""Prompts of one group that a replica in a prefill node may hold at once: a placement states none. KV blocks bound it
too."""
_RESUME_CHUNK = 128
"""Prompt tokens a step of a replica in a decode node, which computes prompts only for requests that go on elsewhere."""

TORCH = "torch"
"""The engine that cuts a stage over devices."""


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
    """Devices of the node that each of its parts is cut over."""
    whole_experts: bool = False
    replicas: int = 1
    """Data-parallel ones inside the node, which share all of the above evenly."""
    parts: int = 1
    """Of the pipeline that each replica is."""
    joint: bool = False
    """Its replicas share their experts."""

    def __post_init__(self) -> None:
        if min(self.shards, self.replicas, self.parts) < 1 or self.parts > self.layers:
            raise UnplaceableError(f"a node is cut into 1 part or more, and into no more than it has layers: {self}")

    @property
    def replica(self) -> "GangPlace":
        """What each of its replicas takes. A share that is no whole number is rounded down, but never to nothing."""
        caps = (self.batch_cap, self.chunk_tokens, self.kv_blocks)
        batch_cap, chunk_tokens, kv_blocks = (max(1, cap // self.replicas) for cap in caps)
        weight = self.weight / self.replicas
        return replace(
            self, weight=weight, batch_cap=batch_cap, chunk_tokens=chunk_tokens, kv_blocks=kv_blocks, replicas=1
        )


@dataclass(frozen=True, slots=True)
class Gang:
    places: tuple[GangPlace, ...]
    """Stage by stage. The scheduler runs on the first one's node."""
    engine: str
    dtype: str

    @property
    def most_tokens(self) -> int:
        """Prompt and output of the longest request that there is KV cache for: in one replica of each stage."""
        rooms: dict[int, int] = {}
        for place in self.places:
            rooms[place.stage] = max(rooms.get(place.stage, 0), place.replica.kv_blocks)
        return min(rooms.values()) * BLOCK_TOKENS

    def with_kv_share(self, share: float) -> "Gang":
        """The same with less KV cache: for nodes that ran out of memory."""
        fewer = tuple(replace(place, kv_blocks=max(1, int(place.kv_blocks * share))) for place in self.places)
        return replace(self, places=fewer)


def gang_of(template: ServingTemplate) -> Gang:
    """Raises UnplaceableError for a placement of another kind, or one that splits a node in a way no engine does."""
    gang = placed_gang(template)
    for nodes in (nodes for stage in _stages(template) for nodes in stage.nodes):
        if gang.engine != TORCH and max(nodes.tp, nodes.ep) > 1:
            raise UnplaceableError(
                f"template {template.id}: {nodes.config} is to be cut over devices by tensors or experts, which engine "
                f"{gang.engine} does not do for a stage (data and pipeline parallel it may be): leave `engine` "
                "out of the spec"
            )
        if nodes.ep not in (1, nodes.tp, nodes.tp * nodes.dp):
            raise UnplaceableError(
                f"template {template.id}: {nodes.config} is to be split {nodes.tp} x {nodes.dp} x {nodes.pp} x "
                f"{nodes.ep} (tensor, data, pipeline, expert parallel); engines spread experts over the devices of one "
                "replica, or of all"
            )
    return gang


def batch_cap(nodes: StageNodes) -> int:
    """Requests of one group that each of these nodes takes."""
    return nodes.batch_cap or _PREFILL_BATCH * nodes.dp


def chunk_tokens(stage: Stage, nodes: StageNodes) -> int:
    """Prompt tokens of one step of each of these nodes of the stage.

    Peers take a step together (`lockstep-v1`), and one with more room than its share would have the others wait. Where
    prompts are all they do, each takes its share of what fits the scarcest of them; yet no less than fits every one, so
    that the longest prompt that is certified is not cut.
    """
    if nodes.batch_cap or not nodes.chunk_tokens:
        return nodes.chunk_tokens or max(_RESUME_CHUNK * nodes.dp, nodes.batch_cap)
    peers = [each for each in stage.nodes if each.weight > 0]
    of_all = min((each.chunk_tokens / each.weight for each in peers), default=0.0)
    of_every = min((each.chunk_tokens for each in peers), default=nodes.chunk_tokens)
    return min(nodes.chunk_tokens, max(of_every, round(of_all * nodes.weight)))


def placed_gang(template: ServingTemplate) -> Gang:
    """The same whatever an engine can split, as for nodes that are simulated. Raises UnplaceableError for a placement
    of another kind."""
    places: list[GangPlace] = []
    for number, stage in enumerate(_stages(template)):
        for nodes in stage.nodes:
            place = GangPlace(
                nodes.config,
                number,
                stage.first_layer,
                stage.layers,
                nodes.weight,
                batch_cap(nodes),
                chunk_tokens(stage, nodes),
                nodes.kv_blocks,
                nodes.tp,
                nodes.ep > 1,
                nodes.dp,
                nodes.pp,
                nodes.ep > nodes.tp,
            )
            places += [place] * nodes.count
    if not places:
        raise UnplaceableError(f"template {template.id}: its placement names no node")
    return Gang(tuple(places), template.engine, template.dtype)


def _stages(template: ServingTemplate) -> tuple[Stage, ...]:
    try:
        return tuple(stage for executor in unit_of(template).executors for stage in executor.stages)
    except PlacementError as error:
        raise UnplaceableError(f"template {template.id}: {error}") from error
