"""Composite tasks: async functions over units. All that one calls before it awaits a value is known when it has run
once."""

from collections.abc import Callable, Coroutine
from inspect import iscoroutinefunction
from typing import Any

from medley_sdk.errors import TaskError
from medley_sdk.request import Request

Function = Callable[[Request], Coroutine[Any, Any, Any]]
MODALITIES = frozenset({"text", "image", "audio"})


class Workflow:
    __slots__ = ("_function", "makes", "takes")

    def __init__(self, function: Function, takes: tuple[str, ...], makes: tuple[str, ...]) -> None:
        self._function, self.takes, self.makes = function, takes, makes

    def __call__(self, request: Request) -> Coroutine[Any, Any, Any]:
        """Run as a part of another workflow: `return await other(request)`."""
        return self._function(request)


def workflow(
    *, takes: tuple[str, ...] = ("text",), makes: tuple[str, ...] = ("text",)
) -> Callable[[Function], Workflow]:
    """Make a composite task of an async function of a request.

    `takes`: what requests may bring of `text`, `image` and `audio`; text is always there where a task takes it.
    `makes`: what they may be answered with. Raises TaskError for other words, and for a function that is not async.
    """
    for words, what in ((takes, "takes"), (makes, "makes")):
        if not words or isinstance(words, str) or len(set(words)) < len(words) or not MODALITIES.issuperset(words):
            raise TaskError(f"{what}={words!r}: give a tuple of {', '.join(sorted(MODALITIES))}, each once at the most")

    def made(function: Function) -> Workflow:
        if not iscoroutinefunction(function):
            raise TaskError(f"{getattr(function, '__name__', function)!r} is no workflow: define it with `async def`")
        return Workflow(function, tuple(takes), tuple(makes))

    return made
