"""An app: a Python file with workflows, and with services that they call."""

from dataclasses import dataclass
from typing import Any

import msgspec

from medley_sdk.errors import TaskError
from medley_sdk.flows.messages import AppLoaded, FlowInfo
from medley_sdk.flows.service import Service
from medley_sdk.loading import executed_file
from medley_sdk.workflow import Workflow


@dataclass(frozen=True, slots=True)
class App:
    flows: dict[str, Workflow]
    """By the names of their variables; without composite tasks."""
    services: dict[str, Service]
    """By the names of their classes."""

    def described(self, *, isolated: bool) -> AppLoaded:
        flows = tuple(flow.info(name) for name, flow in self.flows.items())
        return AppLoaded(flows, tuple(each.info for each in self.services.values()), isolated)

    def arguments(self, name: str, given: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of a run by their types. Raises TaskError, with its place, for those that are missing,
        unknown, or of another type."""
        info, flow = self.info(name), self.flows[name]
        known = {each.name: each.required for each in info.parameters}
        wrong = sorted(set(given) - set(known)) + sorted(each for each in known if known[each] and each not in given)
        if wrong:
            shown = ", ".join(f"{each.name}: {each.type}" for each in info.parameters) or "nothing"
            raise TaskError(f"workflow {name} takes {shown}; {', '.join(wrong)} is missing or not known")
        try:
            return {each: msgspec.convert(value, flow.types[each]) for each, value in given.items()}
        except msgspec.ValidationError as error:
            raise TaskError(f"workflow {name}: an argument is of another type: {error}") from None

    def info(self, name: str) -> FlowInfo:
        """Raises TaskError where there is no such workflow."""
        if name not in self.flows:
            raise TaskError(f"there is no workflow {name!r}; there are {', '.join(self.flows) or 'none'}")
        return self.flows[name].info(name)


def load_app(source: str, file: str) -> App:
    """Run a file, and find what it defines. Raises whatever its code raises."""
    found = executed_file(source, file)
    flows = {name: value for name, value in found.items() if isinstance(value, Workflow) and not value.is_task}
    services: dict[str, Service] = {}
    for value in found.values():
        if isinstance(value, Service) and services.setdefault(value.info.name, value) is not value:
            raise TaskError(f"there are two services {value.info.name}; give each class a name of its own")
    return App(flows, services)
