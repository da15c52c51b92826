"""A graph of components as programs read it: of `medley graphs show` and the admin API."""

from dataclasses import dataclass
from functools import cache

from templates_lib.graphs.catalogue import graph_facts, graph_names
from templates_lib.graphs.component import ComponentKind, Modality
from templates_lib.graphs.model_graph import ModelGraph
from templates_lib.graphs.read import graph_from_config
from templates_lib.graphs.request_type import possible_types
from templates_lib.values.gpu import GIB
from templates_lib.values.work import Unit


@dataclass(frozen=True, slots=True)
class ComponentDocument:
    component: str
    kind: ComponentKind
    unit: Unit
    """What its work is counted in."""
    weight_gib: float
    reads: Modality | None
    """What it makes of a request, beside what other components give it."""
    answers: Modality | None
    """What clients get of it."""


@dataclass(frozen=True, slots=True)
class EdgeDocument:
    source: str
    target: str
    bytes_per_unit: float
    """For each unit of the source's work."""
    stream: bool
    """Sent as it is made; else at once."""
    required: bool
    """The target cannot work without."""
    with_context: bool
    """What the source read first is sent, too."""


@dataclass(frozen=True, slots=True)
class GraphDocument:
    graph: str
    revision: str
    source: str
    """Where its figures come from."""
    weight_gib: float
    components: tuple[ComponentDocument, ...]
    """None before what it takes rows from."""
    edges: tuple[EdgeDocument, ...]
    request_types: dict[str, tuple[str, ...]]
    """What comes in and what goes out → components that such a request visits."""


def graph_document(graph: ModelGraph, source: str) -> GraphDocument:
    """`source`: where its figures come from."""
    components = tuple(
        ComponentDocument(each.name, each.kind, each.unit, each.weight_bytes / GIB, each.reads, each.answers)
        for each in graph.components
    )
    edges = tuple(
        EdgeDocument(each.source, each.target, each.bytes_per_unit, each.stream, each.required, each.with_context)
        for each in graph.edges
    )
    types = {name: graph.order(visited) for name, visited in possible_types(graph).items()}
    return GraphDocument(graph.id, graph.revision, source, graph.weight_bytes / GIB, components, edges, types)


@cache
def known_graphs() -> tuple[GraphDocument, ...]:
    """List the graphs that ship."""
    found = (graph_facts(name) for name in graph_names())
    return tuple(
        graph_document(graph_from_config(facts["config"], facts["id"], facts["revision"]), facts["source"])
        for facts in found
    )
