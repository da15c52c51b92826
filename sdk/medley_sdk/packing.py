"""Arguments and answers as MessagePack: plain values, with slots where handles stand."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from medley_sdk.errors import TaskError
from medley_sdk.handle import Handle

if TYPE_CHECKING:
    from medley_sdk.current import Running

MOST_BYTES = 1 << 16
"""Bytes of what a task hands to one call beside handles, and of its answer."""
_SLOT = 1
"""Code of the extension type that a slot is."""


def packed(value: Any, run: "Running", most_bytes: int = MOST_BYTES) -> tuple[bytes, tuple[Any, ...]]:
    """Return plain values as bytes, and the references that their slots stand for. Raises TaskError for what does not
    travel, for a handle of another run, and for more than `most_bytes`."""
    refs: list[Any] = []

    def slot(found: Any) -> msgspec.msgpack.Ext:
        if not isinstance(found, Handle):
            kind = type(found).__name__
            raise TypeError(f"a value of type {kind} does not travel; hand on handles, text, numbers, lists and dicts")
        if found.run is not run:
            raise TypeError("a handle of another run is handed on; hand on what this run has called, or plain values")
        refs.append(found.ref)
        return msgspec.msgpack.Ext(_SLOT, len(refs).to_bytes(2, "big"))

    try:
        data = msgspec.msgpack.encode(value, enc_hook=slot)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise TaskError(str(error)) from None
    if len(data) > most_bytes:
        raise TaskError(f"hands on {len(data)} bytes beside handles; {most_bytes} are the most")
    return data, tuple(refs)


def unpacked(data: bytes, values: Sequence[Any]) -> Any:
    """Return what was packed, with `values` in its slots. Raises ValueError for bytes that are no such thing."""

    def value(code: int, number: memoryview) -> Any:
        place = int.from_bytes(number, "big")
        if code != _SLOT or not 1 <= place <= len(values):
            raise ValueError(f"slot {place} (extension {code}) is none of {len(values)}; give a value for each")
        return values[place - 1]

    return msgspec.msgpack.decode(data, ext_hook=value)


def filled(data: bytes, values: Sequence[bytes]) -> bytes:
    """Return what was packed with values, each as MessagePack, in its slots. Raises as `unpacked`."""
    return msgspec.msgpack.encode(unpacked(data, [msgspec.Raw(value) for value in values])) if values else data
