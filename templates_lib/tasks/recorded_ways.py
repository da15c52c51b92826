"""What the records of a task come to: the ways of each request type."""

from collections.abc import Sequence

from medley_sdk.values import Record
from templates_lib.graphs.model_graph import GraphError, ModelGraph
from templates_lib.tasks.recorded_path import RecordedPath, recorded_path
from templates_lib.tasks.task_ways import TaskWays, Way


def ways_of(graph: ModelGraph, records: Sequence[Record]) -> TaskWays:
    """What the records of a task's samples come to, all choices of each. Raises GraphError for a record that is no path
    of the graph, and where requests of a type take other paths when they have more images or clips."""
    taken: dict[str, dict[tuple[int, int], dict[tuple[int, ...], RecordedPath]]] = {}
    for record in records:
        path, signature = recorded_path(graph, record), record.signature
        counts = taken.setdefault(path.request_type, {})
        choices = tuple(choice.taken for choice in record.choices)
        counts.setdefault((signature.images, signature.audio), {})[choices] = path
    ways: list[Way] = []
    for kind, counts in taken.items():
        first, *others = ({c: path.options for c, path in found.items()} for found in counts.values())
        if any(other != first for other in others):
            raise GraphError(
                f"{kind}: two images or clips take another path than one; requests of a type take the same"
            )
        chosen = dict[tuple[tuple[str, ...], ...], tuple[int, ...]]()
        for choices, options in first.items():
            chosen.setdefault(options, choices)
        ways += (Way(kind, options, choices) for options, choices in chosen.items())
    every = [path for counts in taken.values() for found in counts.values() for path in found.values()]
    visited = graph.order({component for path in every for step in path.steps for component in step.role})
    whole = {ends for path in every for ends in path.whole}
    streamed = {(edge.source, edge.target) for edge in graph.edges if edge.stream}
    return TaskWays(visited, tuple(ways), tuple(sorted(whole & streamed)))
