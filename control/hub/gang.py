"""The nodes of one instance and what they run: the executors of its template, node by node."""

from dataclasses import dataclass, replace

from templates_lib.sources.placement_checks import PlacementError
from templates_lib.sources.placement_kinds import unit_of
from templates_lib.values.engine_limits import beyond
from templates_lib.values.engines import DEFAULT_ENGINE, ENGINES, stage_engines
from templates_lib.values.placement import ONLY, Executor, GraphPart, Stage, StageNodes, UnitPlacement
from templates_lib.values.template import ServingTemplate

BLOCK_TOKENS = 16
"""Of a KV block, in a placement (`templates_lib.values.placement`) and in the engines."""
_PREFILL_BATCH = 32
"""Prompts of one group that a replica in a prefill node may hold at once: a placement states none. KV blocks bound it
too."""
_RESUME_CHUNK = 128
"""Prompt tokens a step of a replica in a decode node, which computes prompts only for requests that go on elsewhere."""


class UnplaceableError(ValueError):
    """The template cannot be run by what there is; the message says what it would need."""


@dataclass(frozen=True, slots=True)
class GangPlace:
    """Part of an executor that runs on one node."""

    config: str
    """Node configuration."""
    stage: int
    first_layer: int
    layers: int
    """0 where it computes a part of a graph."""
    weight: float
    """Share of the stage's requests."""
    batch_cap: int
    chunk_tokens: int
    """Of a part of a graph 0, as of its KV blocks: as many as its requests may fill."""
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
    slot: int = 0
    """Number of its node."""
    compute: float = 1.0
    """Share of the time of its devices."""
    processors: float = 0.0
    """Share of the node's processors and memory; 0: as of its devices."""

    def __post_init__(self) -> None:
        if min(self.shards, self.replicas, self.parts) < 1 or self.parts > max(self.layers, 1):
            raise UnplaceableError(f"a node is cut into 1 part or more, and into no more than it has layers: {self}")

    @property
    def replica(self) -> "GangPlace":
        """Return what each of its replicas takes. A share that is no whole number is rounded down, but never to
        nothing."""
        caps = (self.batch_cap, self.chunk_tokens, self.kv_blocks)
        batch_cap, chunk_tokens, kv_blocks = (max(1, cap // self.replicas) for cap in caps)
        weight = self.weight / self.replicas
        return replace(
            self, weight=weight, batch_cap=batch_cap, chunk_tokens=chunk_tokens, kv_blocks=kv_blocks, replicas=1
        )


@dataclass(frozen=True, slots=True)
class GangExecutor:
    places: tuple[GangPlace, ...]
    """Stage by stage. Its scheduler runs on the first one's node."""
    engine: str
    dtype: str
    id: str = ONLY
    component: str = ""
    devices: tuple[int, ...] = ()
    """Numbers of those that it uses of each node; empty: all."""
    graph: GraphPart | None = None
    """None: it serves a model by layers."""

    @property
    def most_tokens(self) -> int:
        """Prompt and output of the longest request that there is KV cache for: in one replica of each stage."""
        rooms: dict[int, int] = {}
        for place in self.places:
            rooms[place.stage] = max(rooms.get(place.stage, 0), place.replica.kv_blocks)
        return min(rooms.values()) * BLOCK_TOKENS


@dataclass(frozen=True, slots=True)
class Gang:
    """The nodes of an instance with what each executor runs there."""

    executors: tuple[GangExecutor, ...]
    pool_bytes: int = 0
    """KV cache that they share, as members by their places; 0: each has its own."""
    kv_share: float = 1.0
    """Of the KV cache that is planned."""

    @property
    def configs(self) -> tuple[str, ...]:
        """Node configuration of each node, by number."""
        found = {place.slot: place.config for executor in self.executors for place in executor.places}
        return tuple(found[slot] for slot in sorted(found))

    @property
    def is_of_one(self) -> bool:
        """Tell whether it has one executor, which goes by the name of its instance."""
        return len(self.executors) == 1

    def member(self, instance: str, executor: str) -> str:
        """Return the name of an instance's executor in routing tables."""
        return instance if self.is_of_one else f"{instance}/{executor}"

    @property
    def protocol(self) -> int:
        """The oldest that its agents may speak (`agents.messages.session`)."""
        if self.pool_bytes:
            return 5
        if any(each.graph is not None for each in self.executors):
            return 4
        if any(ENGINES[each.engine].is_whole for each in self.executors if each.engine in ENGINES):
            return 3
        first = self.executors[0]
        whole = all(place.compute == 1 for place in first.places) and not first.devices
        return 1 if self.is_of_one and whole and first.engine in stage_engines() else 2

    def with_kv_share(self, share: float) -> "Gang":
        """The same with less KV cache: for nodes that ran out of memory. Parts of graphs state none."""
        fewer = tuple(each if each.graph is not None else _with_kv_share(each, share) for each in self.executors)
        return Gang(fewer, int(self.pool_bytes * share), self.kv_share * share)


def _with_kv_share(executor: GangExecutor, share: float) -> GangExecutor:
    fewer = (replace(place, kv_blocks=max(1, int(place.kv_blocks * share))) for place in executor.places)
    return replace(executor, places=tuple(fewer))


def gang_of(template: ServingTemplate) -> Gang:
    """Raises UnplaceableError for a placement that cannot be read, or that splits a node in a way no engine does."""
    unit = _unit(template)
    if unit.pool_bytes:
        _check_members(template.id, unit)
    for executor in unit.executors:
        if executor.graph is None:
            _check_split(template.id, executor)
        else:
            _check_part(template.id, executor, executor.graph)
    return read_gang(template)


def _check_members(template: str, unit: UnitPlacement) -> None:
    """Nodes run what shares a KV cache in one way: each member whole, on one device, by the engine of ours."""
    slots = {slot for executor in unit.executors for slot in executor.configs}
    for executor in unit.executors:
        split = [nodes for _, _, nodes, _ in executor.placed() if max(nodes.tp, nodes.dp, nodes.pp) > 1]
        if executor.graph is not None or executor.engine != DEFAULT_ENGINE or len(slots) > 1 or split:
            raise UnplaceableError(
                f"template {template}: {executor.component} is to share a KV cache; nodes start models that do whole, "
                f"each in one process of engine {DEFAULT_ENGINE}, all on one node, and cut none over devices yet"
            )


def _check_part(template: str, executor: Executor, part: GraphPart) -> None:
    kind, cut, why = ENGINES.get(executor.engine), len(executor.share.devices), ""
    if kind is None or not kind.takes_parts:
        why = f"engine {executor.engine} serves whole models only" if executor.engine else "no engine computes them"
    elif cut > 1 and not kind.support.tensor_parallel:
        why = f"they are to be cut over {cut} devices, which engine {executor.engine} does not do"
    if why:
        of = f"components {', '.join(part.components)} of {executor.component}"
        raise UnplaceableError(f"template {template}: {of} are not served yet: {why}")


def _check_split(template: str, executor: Executor) -> None:
    nodes = [nodes for stage in executor.stages for nodes in stage.nodes]
    kind = ENGINES.get(executor.engine)
    there = [each for each in (kind.here, kind.rented) if each is not None] if kind else []
    refused = [beyond(support, executor.stages) for support in there]
    if refused and all(refused):
        configs = ", ".join(dict.fromkeys(each.config for each in nodes))
        raise UnplaceableError(
            f"template {template}: a model on {configs} is to be {' and '.join(refused[0])}, which engine "
            f"{executor.engine} does not do: leave `engine` out of the spec"
        )
    for each in nodes:
        if each.ep not in (1, each.tp, each.tp * each.dp):
            raise UnplaceableError(
                f"template {template}: {each.config} is to be split {each.tp} x {each.dp} x {each.pp} x {each.ep} "
                "(tensor, data, pipeline, expert parallel); engines spread experts over the devices of one replica, or "
                "of all"
            )


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
    that cannot be read, and for executors that share a KV cache, which are not simulated."""
    gang = read_gang(template)
    if gang.pool_bytes:
        raise UnplaceableError(f"template {template.id}: its executors share one KV cache, which is not simulated yet")
    return gang


def read_gang(template: ServingTemplate) -> Gang:
    """The same whether it can be run or not. Raises UnplaceableError for a placement that cannot be read."""
    found, unit = [], _unit(template)
    for each in unit.executors:
        if each.graph is None:
            places = tuple(_place(*of, each, unit) for of in each.placed())
        else:
            places = (_graph_place(each, each.graph, unit),)
        if not places:
            raise UnplaceableError(f"template {template.id}: its placement names no node")
        own = each.engine, each.dtype, each.id, each.component, each.share.devices, each.graph
        found.append(GangExecutor(places, *own))
    return Gang(tuple(found), unit.pool_bytes)


def _place(
    number: int, stage: Stage, nodes: StageNodes, slot: int, executor: Executor, unit: UnitPlacement
) -> GangPlace:
    kv_blocks = min(nodes.kv_blocks, executor.share.kv_blocks or nodes.kv_blocks)
    limits = nodes.weight, batch_cap(nodes), chunk_tokens(stage, nodes), kv_blocks
    split = nodes.tp, nodes.ep > 1, nodes.dp, nodes.pp, nodes.ep > nodes.tp
    own = *limits, *split, slot, *_shares(executor, unit, slot)
    return GangPlace(nodes.config, number, stage.first_layer, stage.layers, *own)


def _graph_place(executor: Executor, part: GraphPart, unit: UnitPlacement) -> GangPlace:
    ((slot,),) = executor.slots
    compute, processors = _shares(executor, unit, slot)
    most, shards = max(part.together.values(), default=1), max(1, len(executor.share.devices))
    return GangPlace(part.config, 0, 0, 0, 1.0, most, 0, 0, shards, slot=slot, compute=compute, processors=processors)


def _shares(executor: Executor, unit: UnitPlacement, slot: int) -> tuple[float, float]:
    """Its shares of the time of its devices, and of the node's processors and memory. Those who share a KV cache take
    turns: while it is its turn, one that states no share has all of them."""
    if unit.pool_bytes:
        return executor.share.compute or 1.0, 0.0
    compute = min(shares[executor.id] for shares in unit.compute_by_device(slot) if executor.id in shares)
    return float(compute), float(unit.compute(slot)[executor.id])


def _unit(template: ServingTemplate) -> UnitPlacement:
    try:
        return unit_of(template)
    except PlacementError as error:
        raise UnplaceableError(f"template {template.id}: {error}") from error
