"""What a workflow calls: models that Medley serves, services of its own, and what its run offers."""

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from medley_sdk.current import running
from medley_sdk.errors import TaskError
from medley_sdk.flows.messages import CallKind, Effects
from medley_sdk.handle import Handle


@dataclass(frozen=True, slots=True)
class Callee:
    """What is called, and how."""

    kind: CallKind
    name: str
    gives: Any
    """Type of the result."""
    effects: Effects = Effects.NONE
    idempotent: bool = False
    timeout_s: float | None = None

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" if self.name else str(self.kind)


class Reply(Struct, frozen=True):
    """What a model answered."""

    text: str
    finish_reason: str
    prompt_tokens: int
    output_tokens: int


class CallName(Struct, frozen=True):
    """Name of a call, for services that change something outside: it is the same whenever the call is started again."""

    id: str


class Model:
    """A model that Medley serves, by the name that its clients use."""

    __slots__ = ("_callee",)

    def __init__(self, name: str, timeout_s: float) -> None:
        self._callee = Callee(CallKind.MODEL, name, Reply, timeout_s=timeout_s)

    def __call__(self, messages: Any, /, **params: Any) -> Handle:
        """Ask it: a text, or a list of OpenAI's messages; the content of a message may be a handle of a text or of
        another model's reply. `params` are those of OpenAI's chat, such as `max_tokens`, `temperature` and `seed`. To
        await it gives a `Reply`."""
        return running().invoke(self._callee, messages, **params)

    def __repr__(self) -> str:
        return f"model({self._callee.name})"


def model(name: str, *, timeout_s: float = 600.0) -> Model:
    """Name a model of Medley's gateway. `timeout_s`: the longest time of one call, its tries together."""
    if not isinstance(name, str) or not name.strip():
        raise TaskError("model(...): give the name of a model, as `medley chat` shows it")
    if not timeout_s > 0:
        raise TaskError(f"model({name!r}): timeout_s is {timeout_s}; give seconds")
    return Model(name, timeout_s)


def signal(name: str, *, timeout_s: float | None = None, of: Any = Any) -> Handle:
    """Wait for a signal that is sent to this run (`medley signal`): its value, of type `of`. Signals of one name are
    taken in the order in which they are sent. After `timeout_s` it gives None."""
    if not name or not isinstance(name, str):
        raise TaskError("signal(...): give the name of the signal")
    gives = Any if of is Any else of | None
    return running().invoke(Callee(CallKind.SIGNAL, name, gives, timeout_s=timeout_s))


def sleep(seconds: float) -> Handle:
    """Wait for a time, which goes on whatever dies meanwhile."""
    if not 0 <= seconds <= 366 * 86_400:
        raise TaskError(f"sleep({seconds}): give 0 seconds to a year")
    return running().invoke(Callee(CallKind.SLEEP, "", None, timeout_s=float(seconds)))


def emit(value: Any) -> Handle:
    """Hand a value, or what a handle will give, to whoever watches the run, while it goes on."""
    return running().invoke(Callee(CallKind.EMIT, "", None), value)


async def gather(*awaited: Awaitable[Any]) -> list[Any]:
    """Wait for all of these, handles and coroutines, and return their values in order. The first that fails is
    raised."""
    from asyncio import gather as at_once  # only runs that are executed have a loop
    from asyncio import get_running_loop

    try:
        get_running_loop()
    except RuntimeError:  # a composite task: what it awaits first is all that it may await
        return [await each for each in awaited]
    return list(await at_once(*awaited))
