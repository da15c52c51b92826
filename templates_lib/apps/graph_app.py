"""An app that is a graph of components: an any-to-any model with the types of its requests and their objectives."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from templates_lib.apps.app import TypeShare
from templates_lib.graphs.model_graph import GraphError, ModelGraph
from templates_lib.graphs.objective import TypeObjective
from templates_lib.graphs.read import graph_from_config
from templates_lib.graphs.request_type import GraphRequestType, Lengths, check_types, possible_types, request_type
from templates_lib.values.nearest_name import nearest_name


@dataclass(frozen=True, slots=True, eq=False)
class GraphApp:
    name: str
    """As clients call it; work classes and routes begin with it."""
    graph: ModelGraph
    types: tuple[GraphRequestType, ...]
    together: tuple[tuple[str, ...], ...] = ()
    """Sets of components that one executor may run; empty: all runs of neighbours."""


@dataclass(frozen=True, slots=True)
class PublishedType:
    """A request type as files say it."""

    name: str
    """One of those that the graph has paths for, such as `image-text-to-text`."""
    share: float
    lengths: Lengths
    objective: TypeObjective


@dataclass(frozen=True, slots=True, eq=False)
class PublishedApp:
    """An app by the config that its model is published with: what files hold of it."""

    name: str
    graph: str
    """Id of its graph."""
    revision: str
    config: dict[str, Any]
    types: tuple[PublishedType, ...]
    together: tuple[tuple[str, ...], ...] = ()

    @property
    def shares(self) -> tuple[TypeShare, ...]:
        return tuple(TypeShare(self.name, each.name, each.share) for each in self.types)


@lru_cache(maxsize=64)
def app_of(published: PublishedApp) -> GraphApp:
    """Read the graph. Raises UnsupportedModelError with the key of the config, GraphError for types that it does not
    serve or that are no mix, and for unknown components."""
    graph = graph_from_config(published.config, published.graph, published.revision)
    types = tuple(typed(graph, each) for each in published.types)
    check_types(graph, types)
    return GraphApp(published.name, graph, types, tuple(graph.order(names) for names in published.together))


def typed(graph: ModelGraph, published: PublishedType) -> GraphRequestType:
    """What requests of a type ask of each component. Raises GraphError with the nearest name."""
    possible = possible_types(graph)
    if published.name not in possible:
        raise GraphError(
            f"{graph.id}: has no request type {published.name!r}; {nearest_name(published.name, possible)}"
        )
    return request_type(
        graph, published.name, possible[published.name], published.lengths, published.share, published.objective
    )
