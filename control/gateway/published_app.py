"""An app of a graph of components as the table has it: its code, and which model of the table serves which requests."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from policies.routing_table import RoutedModel


@dataclass(frozen=True, slots=True)
class TaskCode:
    """A file of Python with a workflow of `medley_sdk`; it runs in a process of its own."""

    file: str
    """Name for messages."""
    text: str = field(repr=False)
    name: str
    """Of the workflow."""


@dataclass(frozen=True, slots=True)
class ServedApp:
    name: str
    """As clients and executors call it."""
    task: TaskCode
    types: Mapping[str, str]
    """Request type → the model of the table with its routes, tokenizer and config."""
    roles: Mapping[str, tuple[str, ...]]
    """Work class → components of the graph that its executors compute, in the graph's order."""
    choices: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Route → how the code chooses for requests that take it (`templates_lib.apps.task_choices`)."""

    def check(self, models: Mapping[str, RoutedModel]) -> None:
        """Raises ValueError for what is not in the table."""
        for request_type, name in self.types.items():
            if name not in models:
                raise ValueError(f"app {self.name}: {request_type} is served by {name}, which is not there")
            legs = (leg for route in models[name].routes for leg in route.legs)
            if unknown := sorted({leg.work_class for leg in legs} - self.roles.keys()):
                raise ValueError(f"app {self.name}: no roles for {', '.join(unknown)}")
