"""Types whose values travel between processes: what MessagePack has, and classes that msgspec makes of it."""

import typing
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec import inspect

from medley_sdk.errors import TaskError

_NEVER = (inspect.CustomType, inspect.RawType, inspect.ExtType)
HINT = "use None, bool, numbers, str, bytes, dates, enums, lists, dicts, dataclasses or msgspec.Struct"


def hints(function: Callable[..., Any], place: str) -> dict[str, Any]:
    """Return the types of a function's parameters, and of its result as `return`. Raises TaskError for a name that
    means nothing."""
    try:
        return typing.get_type_hints(function)
    except (NameError, TypeError, AttributeError) as error:
        raise TaskError(f"{place}: its types cannot be read ({error}); import what they name at the top") from None


def checked(kind: Any, place: str) -> Any:
    """Return a type whose values travel. `place`: for people. Raises TaskError for any other."""
    try:
        seen: set[int] = set()
        for part in _parts(inspect.type_info(kind), seen):
            if isinstance(part, _NEVER):
                name = getattr(getattr(part, "cls", None), "__name__", type(part).__name__)
                raise TaskError(f"{place}: a value of type {name} does not travel; {HINT}")
    except (TypeError, ValueError, NameError) as error:
        raise TaskError(f"{place}: a value of type {kind!r} does not travel ({error}); {HINT}") from None
    return kind


def type_text(kind: Any) -> str:
    """Name a type, for people."""
    return kind.__name__ if isinstance(kind, type) else str(kind).replace("typing.", "")


def _parts(info: Any, seen: set[int]) -> Iterator[inspect.Type]:
    """Yield a type and all that it is made of, each once: classes may hold themselves."""
    if isinstance(info, tuple):
        for each in info:
            yield from _parts(each, seen)
    elif isinstance(info, inspect.Type | inspect.Field) and id(info) not in seen:
        seen.add(id(info))
        if isinstance(info, inspect.Type):
            yield info
        for name in info.__struct_fields__:
            yield from _parts(getattr(info, name), seen)


def as_type(data: bytes, kind: Any, place: str) -> Any:
    """Return the value that MessagePack holds, of a type. Raises TaskError, with its place, where it is of another."""
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise TaskError(f"{place}: {error}") from None
