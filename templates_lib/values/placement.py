"""Placement of software on the nodes of a template: executors, each with the stages of a model or a part of a graph."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from templates_lib.values.work import Phase

FULLEST = 1.5
"""Times its chunk, that a step of several prompts has at most: prompts are whole, and as many go in one step as come
nearest to the chunk (`policies.lanes`)."""
HAND_OFF_PIECES = 16
"""Pieces in which a stage sends its part of a KV cache while it computes the prompt. A request waits for the last of
them behind its first token."""


UNIT, UNIT_VERSION = "unit", 2
"""The kind of placements that are units as they are, and its newest form: in the first executors share no KV cache."""
ONLY = "only"
"""The id of an executor that is alone in its unit."""


@dataclass(frozen=True, slots=True)
class StageNodes:
    """Equal nodes of one stage and how each of them runs its layers."""

    config: str
    count: int
    weight: float
    """Share of the stage's work that each of these nodes takes (all nodes of a stage add up to 1)."""
    tp: int
    dp: int
    pp: int
    ep: int
    batch_cap: int
    """Requests in one decode step of one node (0: no decode work)."""
    chunk_tokens: int
    """Prompt tokens in one prefill step of one node (0: no prefill work)."""
    kv_blocks: int
    """KV cache blocks of 16 tokens, for the held layers, over the whole node."""

    @property
    def phase(self) -> Phase:
        """Return the phase that it has work of."""
        if self.batch_cap and self.chunk_tokens:
            return Phase.AGGREGATED
        return Phase.DECODE if self.batch_cap else Phase.PREFILL


@dataclass(frozen=True, slots=True)
class Stage:
    """Consecutive layers [first_layer, first_layer + layers) on data-parallel peers."""

    first_layer: int
    layers: int
    first: bool
    """Holds the token embedding."""
    last: bool
    """Holds the LM head."""
    nodes: tuple[StageNodes, ...]


@dataclass(frozen=True, slots=True)
class PipelinePlacement:
    """The payload of a template of kind `pipeline`."""

    stages: tuple[Stage, ...]


@dataclass(frozen=True, slots=True)
class Share:
    """The part of each of its nodes that an executor may use."""

    devices: tuple[int, ...] = ()
    """Numbers of the node's devices, from 0; empty: all of them."""
    compute: float = 0.0
    """Share of the time of these devices; 0: an even part of what those leave that state theirs. Of the node's
    processors and memory it has what that is of all of its devices together."""
    kv_blocks: int = 0
    """KV cache blocks on each node at most; 0: as many as its stages state."""


@dataclass(frozen=True, slots=True)
class GraphPart:
    """Components of a graph that an executor computes together, in one process on one node."""

    components: tuple[str, ...]
    """In the order of the graph; a request visits some of them."""
    config: str
    """Node configuration."""
    together: dict[str, int]
    """`COMPONENT/TYPE` → requests that it serves at once, at the operating points; a type that is not served in time is
    not there."""

    def does(self, phase: str) -> bool:
        """Tell whether work classes of this phase, such as `vision+language`, are computed by its components."""
        return set(phase.split("+")) <= set(self.components)


@dataclass(frozen=True, slots=True)
class Executor:
    """Server of one component: a scheduler and, where its engine has them, the workers of its stages."""

    id: str
    """Unique in its unit."""
    component: str
    """As work classes and clients call it."""
    engine: str
    dtype: str
    stages: tuple[Stage, ...]
    """None where it computes a part of a graph."""
    slots: tuple[tuple[int, ...], ...]
    """Stage by stage the template's nodes that it runs on, one number for each of the stage's nodes in their order; the
    node of its part of a graph."""
    share: Share = Share()
    graph: GraphPart | None = None
    """None: it serves a model as a whole, by layers."""

    @property
    def configs(self) -> dict[int, str]:
        """Slot → node configuration that it wants there."""
        if self.graph is not None:
            return {slot: self.graph.config for slots in self.slots for slot in slots}
        return {slot: nodes.config for _, _, nodes, slot in self.placed()}

    def placed(self) -> tuple[tuple[int, Stage, StageNodes, int], ...]:
        """(number of the stage, the stage, how its node runs it, slot) of each node of each stage."""
        return tuple(
            (number, stage, nodes, slot)
            for number, (stage, slots) in enumerate(zip(self.stages, self.slots, strict=True))
            for nodes, slot in zip([n for n in stage.nodes for _ in range(n.count)], slots, strict=True)
        )


@dataclass(frozen=True, slots=True)
class UnitPlacement:
    """Executors on the nodes of one instance; a pipeline is the unit with one executor."""

    executors: tuple[Executor, ...]
    pool_bytes: int = 0
    """KV cache of the whole node, which its executors share: the blocks of each are then how many it may hold at most.
    0: each has its own."""

    @property
    def slots(self) -> tuple[str, ...]:
        """The node configuration of each slot that something runs on."""
        found = {slot: config for executor in self.executors for slot, config in executor.configs.items()}
        return tuple(found[slot] for slot in sorted(found))

    def compute_by_device(self, slot: int) -> tuple[dict[str, Fraction], ...]:
        """Executor → its share of the compute of each device of a node that any executor names there."""
        there = [executor for executor in self.executors if slot in executor.configs]
        found = []
        for device in sorted({device for executor in there for device in executor.share.devices}) or [0]:
            stated = {e.id: Fraction(str(e.share.compute)) for e in there if device in (e.share.devices or (device,))}
            left, silent = 1 - sum(stated.values(), Fraction(0)), sum(not share for share in stated.values())
            found.append({name: share or left / silent for name, share in stated.items()})
        return tuple(found)

    def compute(self, slot: int) -> dict[str, Fraction]:
        """Executor → its share of the compute of a whole node."""
        devices, shares = self.compute_by_device(slot), dict[str, Fraction]()
        for name, share in (each for device in devices for each in device.items()):
            shares[name] = shares.get(name, Fraction(0)) + share / len(devices)
        return shares

    @property
    def component_shares(self) -> dict[str, Fraction]:
        """Component → its share of what the unit's nodes cost, by compute, each node alike; they add up to 1."""
        found = dict.fromkeys((executor.component for executor in self.executors), Fraction(0))
        for shares in (self.compute(slot) for slot in range(len(self.slots))):
            used = sum(shares.values()) * len(self.slots)
            for executor in self.executors:
                found[executor.component] += shares.get(executor.id, Fraction(0)) / used
        return found


@dataclass(frozen=True, slots=True)
class Placement:
    """Stored form of a placement; `kind` and `version` say how to read `payload` (plain JSON values)."""

    kind: str
    version: int
    payload: dict[str, Any]
