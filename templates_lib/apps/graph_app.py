"""An app that is a graph of components: an any-to-any model with the types of its requests and their objectives."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from templates_lib.apps.app import TypeShare
from templates_lib.executors.estimate import neighbours
from templates_lib.executors.executor_graph import ExecutorGraph, graph_of_options, graph_of_paths
from templates_lib.executors.option import DeploymentOption
from templates_lib.graphs.model_graph import GraphError, ModelGraph
from templates_lib.graphs.objective import TypeObjective
from templates_lib.graphs.read import graph_from_config
from templates_lib.graphs.request_type import GraphRequestType, Lengths, check_types, possible_types, request_type
from templates_lib.tasks.task_ways import TaskWays, graph_of
from templates_lib.values.nearest_name import nearest_name


@dataclass(frozen=True, slots=True, eq=False)
class GraphApp:
    name: str
    """As clients call it; work classes and routes begin with it."""
    graph: ModelGraph
    types: tuple[GraphRequestType, ...]
    together: tuple[tuple[str, ...], ...] = ()
    """Sets of components that one executor may run; empty: all runs of neighbours."""
    task: TaskWays | None = None
    """The paths that its requests may take; None: all through its executors."""
    engine: str = ""
    """What nodes run its executors on, each of which then computes one component; empty: nothing runs them yet."""

    @property
    def sets(self) -> tuple[tuple[str, ...], ...]:
        """Return the sets of components that one executor may run."""
        found = self._sets
        return tuple(names for names in found if len(names) == 1) if self.engine else found

    @property
    def _sets(self) -> tuple[tuple[str, ...], ...]:
        if self.task is not None:
            together = self.task.together_of([kind.name for kind in self.types])
            return tuple(self.graph.order(names) for names in together)
        return self.together or neighbours(self.graph, (kind.components for kind in self.types))

    def executors(self, options: Sequence[DeploymentOption]) -> ExecutorGraph:
        """Return the executor graph of these options, one for a set of components at the most. Raises GraphError for a
        type that no path serves."""
        if self.task is None:
            return graph_of_options(self.graph, self.types, options)
        paths = {kind.name: self.task.paths(self.graph, kind, options) for kind in self.types}
        return graph_of_paths(self.graph, self.types, options, paths)


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
    task: TaskWays | None = None
    engine: str = ""
    """As of `GraphApp`."""
    file_bytes: dict[str, float] = field(default_factory=dict)
    """Component → bytes of its weights' file, of those that its engine holds as they are stored and whose file is
    known (`executors.memory_need.KEPT_AS_STORED`)."""

    @property
    def shares(self) -> tuple[TypeShare, ...]:
        return tuple(TypeShare(self.name, each.name, each.share) for each in self.types)


@lru_cache(maxsize=64)
def app_of(published: PublishedApp) -> GraphApp:
    """Read the graph. Raises UnsupportedModelError with the key of the config, GraphError for types that it does not
    serve or that are no mix, and for unknown components."""
    graph = published_graph(published)
    types = tuple(typed(graph, each, published.task) for each in published.types)
    check_types(graph, types)
    together = tuple(graph.order(names) for names in published.together)
    return GraphApp(published.name, graph, types, together, published.task, published.engine)


def published_graph(published: PublishedApp) -> ModelGraph:
    """Read the graph, as far as its task serves it. Raises UnsupportedModelError with the key of the config, GraphError
    for a task of another model."""
    graph = graph_from_config(published.config, published.graph, published.revision)
    return graph if published.task is None else graph_of(graph, published.task)


def typed(graph: ModelGraph, published: PublishedType, task: TaskWays | None = None) -> GraphRequestType:
    """What requests of a type ask of each component. `task`: what serves it, where that is not the whole graph. Raises
    GraphError with the nearest name."""
    possible = possible_types(graph)
    if task is not None:
        possible = {name: possible[name] for name in task.request_types}
    if published.name not in possible:
        raise GraphError(
            f"{graph.id}: has no request type {published.name!r}; {nearest_name(published.name, possible)}"
        )
    return request_type(
        graph, published.name, possible[published.name], published.lengths, published.share, published.objective
    )
