"""A task as plans take it: what its records make of the graph that it is of."""

from dataclasses import dataclass
from pathlib import Path

from control.planning.graph_file import GraphFile, graph_beside
from control.tasks.recorded_task import RecordedTask, recorded_task
from control.tasks.shipped_task import named_task
from control.tasks.task_source import TaskSource
from templates_lib.graphs.read import graph_from_config
from templates_lib.tasks.recorded_ways import ways_of
from templates_lib.tasks.task_ways import TaskWays


@dataclass(frozen=True, slots=True)
class PlannedTask:
    graph: GraphFile
    """Of the whole model."""
    ways: TaskWays


def planned_task(given: str, folder: Path) -> PlannedTask:
    """Read `FILE.py:NAME`, or the name of a task that ships. Raises ValueError and LookupError with the file and what
    is wrong with it."""
    source, name = named_task(given, folder)
    return task_of(source, recorded_task(source, name))


def task_of(source: TaskSource, recorded: RecordedTask) -> PlannedTask:
    """Compare a recorded task with its graph. Raises as `planned_task`."""
    try:
        file = graph_beside(recorded.of, Path(source.folder))
        graph = graph_from_config(file.config, file.id, file.revision)
        ways = ways_of(graph, recorded.records)
    except (LookupError, ValueError) as error:
        raise ValueError(f"{source.file}: {recorded.name}: {error}") from None
    return PlannedTask(file, ways)
