"""How an any-to-any model is run: where its weights are, and the code that its requests take."""

from dataclasses import dataclass, field
from pathlib import Path

from control.fleet_file.app_section import AppSection
from control.tasks.shipped_task import library_task, named_task
from control.tasks.task_source import TaskSource
from templates_lib.graphs.model_graph import ModelGraph
from templates_lib.models.weights_place import absolute_place


@dataclass(frozen=True, slots=True)
class AppRun:
    weights: str
    """`hf:ORG/NAME@REVISION`, `package:NAME` or `path:PATH`, absolute."""
    task: TaskSource = field(repr=False)
    name: str
    """Of the task in its source."""
    dispatch: str
    """How gateways spread its requests: a key of `policies.routing.ROUTING_POLICIES`."""


def run_of(section: AppSection, graph: ModelGraph, folder: Path, dispatch: str) -> AppRun | None:
    """Return how an app is run: a graph by the task that ships for its components. None: its spec says no weights.
    Raises ValueError for a graph that no task ships for, and for a task that cannot be read."""
    if section.weights is None:
        return None
    if section.task is not None:
        source, name = named_task(section.task, folder)
    else:
        components = tuple(component.name for component in graph.components)
        source, name = library_task(section.graph or "", components, str(folder))
    return AppRun(absolute_place(section.weights, folder), source, name, dispatch)
