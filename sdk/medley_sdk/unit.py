"""Unit tasks: encoders, decoders and generators that the code of a task calls."""

from typing import Any

from medley_sdk.current import running
from medley_sdk.errors import TaskError
from medley_sdk.handle import Handle
from medley_sdk.values import Kind, UnitTask


class UnitFunction:
    """Components that one executor computes. A call returns a handle at once."""

    __slots__ = ("task",)

    def __init__(self, task: UnitTask) -> None:
        self.task = task

    def __call__(self, *args: Any, **kwargs: Any) -> Handle:
        """Arguments are handles, text, numbers, and lists and dicts of them; what another unit gave goes along as rows.
        Raises TaskError for any others, and outside of a workflow."""
        return running().call(self.task, *args, **kwargs)

    def __repr__(self) -> str:
        return f"{self.task.kind}({self.task.name})"


def encoder(*components: str, of: str) -> UnitFunction:
    """Make a unit that turns an image or a clip into rows. `of`: name of the model's graph (`medley graphs list`), or
    the path of its config.json, relative to the file of the task. Call it once for each image or clip."""
    return _unit(Kind.ENCODER, components, of)


def decoder(*components: str, of: str) -> UnitFunction:
    """Make a unit that reads text and rows, and writes tokens: its rows go to units, its text to the client."""
    return _unit(Kind.DECODER, components, of)


def generator(*components: str, of: str) -> UnitFunction:
    """Make a unit that turns rows or tokens into an image or audio."""
    return _unit(Kind.GENERATOR, components, of)


def _unit(kind: Kind, components: tuple[str, ...], of: str) -> UnitFunction:
    if not components or len(set(components)) < len(components) or not all(map(_is_name, (*components, of))):
        raise TaskError(f"{kind}{components}: name each of its components once, and the graph that they are of")
    return UnitFunction(UnitTask(kind, components, of))


def _is_name(name: object) -> bool:
    return isinstance(name, str) and bool(name.strip())
