"""What a task makes of a model: the components that it visits, and the paths of each request type."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from templates_lib.executors.option import CompositeTask, DeploymentOption
from templates_lib.executors.path import Path, path_of_task
from templates_lib.graphs.model_graph import ModelGraph
from templates_lib.graphs.request_type import GraphRequestType


@dataclass(frozen=True, slots=True)
class Way:
    """One path of a request type, as the code of a task takes it."""

    request_type: str
    options: tuple[tuple[str, ...], ...]
    """Components that run together, in the order in which requests reach them."""
    choices: tuple[int, ...] = ()
    """Options of its choices that lead there."""


@dataclass(frozen=True, slots=True)
class TaskWays:
    components: tuple[str, ...]
    """Those that some request visits."""
    ways: tuple[Way, ...]
    at_once: tuple[tuple[str, str], ...] = ()
    """Edges that the graph could stream, and the code hands on whole."""

    @property
    def request_types(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(way.request_type for way in self.ways))

    def together_of(self, request_types: Collection[str]) -> tuple[tuple[str, ...], ...]:
        """Return the sets of components that run together for some of these."""
        ways = (way for way in self.ways if way.request_type in request_types)
        return tuple(dict.fromkeys(option for way in ways for option in way.options))

    def paths(self, graph: ModelGraph, kind: GraphRequestType, options: Iterable[DeploymentOption]) -> tuple[Path, ...]:
        """List the paths of a type through these options, of which each set of components may have one; a way with a
        set that has none is left out."""
        known = {option.components: option for option in options}
        found: dict[Path, None] = {}
        for way in self.ways:
            sets = [graph.order(each) for each in way.options]
            if way.request_type == kind.name and all(each in known for each in sets):
                task = CompositeTask(tuple(known[each] for each in sets))
                path = path_of_task(graph, kind.components, task)
                if path is not None:
                    found[path] = None
        return tuple(found)


def graph_of(graph: ModelGraph, ways: TaskWays) -> ModelGraph:
    """The model as the task serves it: components that it visits, edges between them. Raises GraphError for those that
    the model does not have (any more)."""
    names = frozenset(graph.order(ways.components))
    edges = tuple(
        replace(edge, stream=edge.stream and (edge.source, edge.target) not in ways.at_once)
        for edge in graph.edges
        if edge.source in names and edge.target in names
    )
    return replace(graph, components=tuple(c for c in graph.components if c.name in names), edges=edges)
