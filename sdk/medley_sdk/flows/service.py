"""Services: classes of the user's that compute batches of calls, whichever runs these come from (DyOrc, section 4)."""

import inspect
import typing
from collections.abc import Callable
from typing import Any, TypeVar, overload

from medley_sdk.current import running
from medley_sdk.errors import TaskError
from medley_sdk.flows.calls import Callee, CallName
from medley_sdk.flows.messages import CallKind, Effects, ServiceInfo
from medley_sdk.flows.travel import checked, hints
from medley_sdk.handle import Handle

Class = TypeVar("Class", bound=type)
MOST_BATCH = 1024


class Service:
    """A class whose `__init__` loads and whose `__call__` takes lists, one a parameter, with an entry for each call of
    a batch, and returns a list with a result for each. A parameter of type `list[CallName]` is given the names of the
    calls. To call the service gives a handle at once: its arguments are those of one call."""

    __slots__ = ("info", "item_types", "made_of", "result_type", "takes_names")

    def __init__(self, made_of: type, info: ServiceInfo) -> None:
        """Raises TaskError for a class that is no such thing, with the place of what is wrong."""
        self.made_of, self.info = made_of, info
        function = made_of.__call__
        place = f"service {info.name}"
        if not inspect.isfunction(function):
            raise TaskError(f"{place}: its class has no `__call__`; define one that takes a batch and returns as many")
        found = hints(function, place)
        self.item_types: dict[str, Any] = {}
        self.takes_names = ""
        for name in list(inspect.signature(function).parameters)[1:]:
            item = _item(found.get(name), f"{place}, parameter {name}")
            if item is CallName:
                self.takes_names = name
            else:
                self.item_types[name] = checked(item, f"{place}, parameter {name}")
        self.result_type = checked(_item(found.get("return"), f"{place}, its result"), f"{place}, its result")

    def __call__(self, *args: Any, **kwargs: Any) -> Handle:
        """Raises TaskError for arguments that do not travel, and for others than the class takes."""
        names = list(self.item_types)
        given = dict(zip(names, args, strict=False)) | kwargs
        if len(args) > len(names) or set(given) != set(names) or set(names[: len(args)]) & set(kwargs):
            raise TaskError(f"service {self.info.name} takes {', '.join(names) or 'nothing'}; it is called with "
                            f"{len(args)} arguments{', ' if kwargs else ''}{', '.join(kwargs)}")  # fmt: skip
        info = self.info
        callee = Callee(
            CallKind.SERVICE, info.name, self.result_type, info.effects, info.idempotent, timeout_s=info.timeout_s
        )
        return running().invoke(callee, **given)

    def __repr__(self) -> str:
        return f"service({self.info.name})"


@overload
def service(made_of: type, /) -> Service: ...


@overload
def service(
    *,
    effects: str = ...,
    idempotent: bool = ...,
    max_batch: int = ...,
    network: bool = ...,
    timeout_s: float = ...,
) -> Callable[[type], Service]: ...


def service(
    made_of: type | None = None,
    /,
    *,
    effects: str = "none",
    idempotent: bool = False,
    max_batch: int = 32,
    network: bool = False,
    timeout_s: float = 600.0,
) -> Service | Callable[[type], Service]:
    """Make a service of a class.

    `effects`: `none` may be computed again; `external` changes something outside, and is started once at the most; what
    a crash leaves open, or raised, raises `UncertainCallError`, unless `idempotent`: then it is started again, with the
    same name of the call. `max_batch`: calls that it takes at once. `network`: its process may use it. `timeout_s`: of
    a batch.
    """

    def made(given: type) -> Service:
        name = getattr(given, "__name__", str(given))
        if not isinstance(given, type):
            raise TaskError(f"{name!r} is no service: make one of a class with `__init__` and `__call__`")
        if effects not in set(Effects):
            raise TaskError(f"service {name}: effects={effects!r}; give {' or '.join(Effects)}")
        if not 1 <= max_batch <= MOST_BATCH or not timeout_s > 0:
            raise TaskError(f"service {name}: max_batch is 1 to {MOST_BATCH}, and timeout_s above 0")
        return Service(given, ServiceInfo(name, Effects(effects), idempotent, max_batch, network, timeout_s))

    return made if made_of is None else made(made_of)


def _item(kind: Any, place: str) -> Any:
    """Return T of list[T]. Raises TaskError for any other type."""
    if typing.get_origin(kind) is not list:
        shown = "no type" if kind is None else f"type {kind}"
        raise TaskError(f"{place}: has {shown}; a service takes batches: write list[...] of what one call takes")
    return typing.get_args(kind)[0]
