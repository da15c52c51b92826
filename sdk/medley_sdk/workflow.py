"""Workflows: async functions over what Medley serves. All that one calls before it awaits a value is known when it has
run once. One whose only parameter is a `Request` is a composite task: its graph is recorded for the plan."""

import inspect
from collections.abc import Callable, Coroutine
from typing import Any, overload

from medley_sdk.errors import TaskError
from medley_sdk.flows.messages import FlowInfo, Parameter
from medley_sdk.flows.travel import checked, hints, type_text
from medley_sdk.request import Request

Function = Callable[..., Coroutine[Any, Any, Any]]
MODALITIES = frozenset({"text", "image", "audio"})
MOST_CALLS = 100_000


class Workflow:
    __slots__ = ("_function", "_limits", "is_task", "makes", "takes", "types")

    def __init__(
        self, function: Function, takes: tuple[str, ...], makes: tuple[str, ...], limits: "dict[str, Any]"
    ) -> None:
        self._function, self.takes, self.makes, self._limits = function, takes, makes, limits
        parameters = list(inspect.signature(function).parameters.values())
        self.is_task = len(parameters) == 1 and parameters[0].annotation in (
            inspect.Parameter.empty, Request, "Request", "medley.Request",
        )  # fmt: skip
        self.types: dict[str, Any] = {} if self.is_task else _types(function)
        """Of its parameters and, as `return`, of its result."""

    def __call__(self, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, Any]:
        """Run as a part of another workflow: `await other(...)`."""
        return self._function(*args, **kwargs)

    def info(self, name: str) -> FlowInfo:
        """Describe a workflow that is no composite task. `name`: of the variable that holds it."""
        parameters = inspect.signature(self._function).parameters
        shown = (
            Parameter(each, type_text(self.types[each]), parameters[each].default is inspect.Parameter.empty)
            for each in parameters
        )
        return FlowInfo(name, tuple(shown), type_text(self.types["return"]), **self._limits)


@overload
def workflow(function: Function, /) -> Workflow: ...


@overload
def workflow(
    *,
    takes: tuple[str, ...] = ...,
    makes: tuple[str, ...] = ...,
    durable: bool = ...,
    max_usd: float | None = ...,
    max_calls: int = ...,
    deadline_s: float | None = ...,
) -> Callable[[Function], Workflow]: ...


def workflow(
    function: Function | None = None,
    /,
    *,
    takes: tuple[str, ...] = ("text",),
    makes: tuple[str, ...] = ("text",),
    durable: bool = True,
    max_usd: float | None = None,
    max_calls: int = 1000,
    deadline_s: float | None = None,
) -> Workflow | Callable[[Function], Workflow]:
    """Make a workflow of an async function.

    Of a composite task, an async function of one `Request`: `takes` is what requests may bring of `text`, `image` and
    `audio`; text is always there where a task takes it; `makes` is what they may be answered with.

    Of any other, whose parameters and result have types that travel: `durable` runs are journaled, and finished
    whatever dies; `max_usd` bounds what the calls of a run cost, `max_calls` how many there are, and `deadline_s` how
    long it takes from when it was asked for. Raises TaskError for what is none of these.
    """
    for words, what in ((takes, "takes"), (makes, "makes")):
        if not words or isinstance(words, str) or len(set(words)) < len(words) or not MODALITIES.issuperset(words):
            raise TaskError(f"{what}={words!r}: give a tuple of {', '.join(sorted(MODALITIES))}, each once at the most")
    if not 1 <= max_calls <= MOST_CALLS:
        raise TaskError(f"max_calls={max_calls}: give 1 to {MOST_CALLS}")
    for value, what in ((max_usd, "max_usd"), (deadline_s, "deadline_s")):
        if value is not None and not value > 0:
            raise TaskError(f"{what}={value}: give a number above 0, or None for no bound")
    limits = {"durable": durable, "max_usd": max_usd, "max_calls": max_calls, "deadline_s": deadline_s}

    def made(given: Function) -> Workflow:
        if not inspect.iscoroutinefunction(given):
            raise TaskError(f"{getattr(given, '__name__', given)!r} is no workflow: define it with `async def`")
        return Workflow(given, tuple(takes), tuple(makes), limits)

    return made if function is None else made(function)


def _types(function: Function) -> dict[str, Any]:
    """Return the types of parameters and result. Raises TaskError for one that is missing or does not travel."""
    place = f"workflow {function.__name__}"
    found = hints(function, place)
    for name, parameter in inspect.signature(function).parameters.items():
        where = f"{place}, parameter {name}"
        if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            raise TaskError(f"{where}: takes any number; name each parameter, or take a list")
        if name not in found:
            raise TaskError(f"{where}: has no type; write one, so that its values can travel")
        checked(found[name], where)
    if "return" not in found:
        raise TaskError(f"{place}, its result: has no type; write one, `-> None` where there is none")
    checked(found["return"], f"{place}, its result")
    return found
