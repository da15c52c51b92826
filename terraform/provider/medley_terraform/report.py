"""What Terraform shows people: errors and warnings, each at the attribute that it is about."""

from dataclasses import dataclass, field
from typing import Any

from tf.gen import tfplugin_pb2 as pb


@dataclass(frozen=True, slots=True)
class Element:
    """A step of a path into a map or a list."""

    key: str | int


Path = tuple[str | Element, ...]


@dataclass(slots=True)
class Report:
    messages: list[Any] = field(default_factory=list)
    failed: bool = False

    def error(self, summary: str, detail: str = "", path: Path = ()) -> None:
        self.failed = True
        self._add(pb.Diagnostic.ERROR, summary, detail, path)

    def warning(self, summary: str, detail: str = "", path: Path = ()) -> None:
        self._add(pb.Diagnostic.WARNING, summary, detail, path)

    def _add(self, severity: Any, summary: str, detail: str, path: Path) -> None:
        # Terraform finds the line of an attribute, or of an element of one; a longer path it cannot follow.
        shown = path[:2] if len(path) > 1 and isinstance(path[1], Element) else path[:1]
        said = detail if path == shown else f"{detail}\n\nAt {written(path)}."
        message = pb.Diagnostic(severity=severity, summary=summary, detail=said)
        if shown:
            message.attribute.CopyFrom(attribute_path(shown))
        self.messages.append(message)


def attribute_path(path: Path) -> Any:
    return pb.AttributePath(steps=[_step(step) for step in path])


def written(path: Path) -> str:
    """Return the path as people write it in a configuration."""
    text = ""
    for step in path:
        match step:
            case Element(key):
                text += f"[{key}]" if isinstance(key, int) else f'["{key}"]'
            case _:
                text += f".{step}"
    return text.lstrip(".")


def _step(step: str | Element) -> Any:
    match step:
        case Element(int() as index):
            return pb.AttributePath.Step(element_key_int=index)
        case Element(key):
            return pb.AttributePath.Step(element_key_string=str(key))
        case _:
            return pb.AttributePath.Step(attribute_name=step)
