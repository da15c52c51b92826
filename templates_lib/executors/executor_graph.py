"""The model executor graph: options as nodes, paths of each request type, and what options send each other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from templates_lib.executors.option import CompositeTask, DeploymentOption
from templates_lib.executors.path import Path, every_path, path_of_task
from templates_lib.graphs.model_graph import GraphError, ModelGraph
from templates_lib.graphs.request_type import GraphRequestType, check_types


@dataclass(frozen=True, slots=True)
class ExecutorGraph:
    options: tuple[DeploymentOption, ...]
    """Those that some path visits."""
    paths: dict[str, tuple[Path, ...]]
    """Request type → its valid paths, at least one."""

    def option(self, name: str) -> DeploymentOption:
        return next(option for option in self.options if option.name == name)

    @property
    def edges(self) -> frozenset[tuple[str, str]]:
        """Pairs of options that some path visits one after the other."""
        paths = (path for paths in self.paths.values() for path in paths)
        return frozenset(
            (a.option, b.option) for path in paths for a, b in zip(path.visits, path.visits[1:], strict=False)
        )


def graph_of_tasks(
    graph: ModelGraph, types: Sequence[GraphRequestType], tasks: Sequence[CompositeTask]
) -> ExecutorGraph:
    """The executor graph of the ways that a developer wrote (Listing 2). Raises GraphError for a type that none of them
    serves, and what `check_types` does."""
    found = {}
    for each in types:
        paths = (path_of_task(graph, each.components, task) for task in tasks)
        found[each.name] = tuple(dict.fromkeys(path for path in paths if path is not None))
    return graph_of_paths(graph, types, [option for task in tasks for option in task.options], found)


def graph_of_options(
    graph: ModelGraph, types: Sequence[GraphRequestType], options: Sequence[DeploymentOption]
) -> ExecutorGraph:
    """The executor graph of every path through these options. Raises as `graph_of_tasks` does."""
    found = {each.name: every_path(graph, each.components, options) for each in types}
    return graph_of_paths(graph, types, options, found)


def graph_of_paths(
    graph: ModelGraph,
    types: Sequence[GraphRequestType],
    options: Sequence[DeploymentOption],
    paths: Mapping[str, tuple[Path, ...]],
) -> ExecutorGraph:
    """The executor graph of paths that are known: request type → those of it. Raises as `graph_of_tasks` does."""
    check_types(graph, types)
    for each in types:
        if not paths[each.name]:
            visited = ", ".join(graph.order(each.components))
            raise GraphError(
                f"{graph.id}: no path serves request type {each.name!r} ({visited}); add a deployment option "
                f"for each of its components"
            )
    used = {visit.option for of_type in paths.values() for path in of_type for visit in path.visits}
    known = {option.name: option for option in options if option.name in used}
    if len(known) < len({option for option in options if option.name in used}):
        raise GraphError(f"{graph.id}: two deployment options have one name; name each of them")
    return ExecutorGraph(tuple(known.values()), dict(paths))
