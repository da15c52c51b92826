"""Arguments and answers as MessagePack: plain values, with slots where handles stand."""

from collections.abc import Sequence
from typing import Any

import msgspec

from medley_sdk.errors import TaskError
from medley_sdk.handle import Handle
from medley_sdk.values import Ref

MOST_BYTES = 1 << 16
"""Bytes of what is handed to one call beside handles, and of an answer."""
_SLOT = 1
"""Code of the extension type that a slot is."""


def packed(value: Any) -> tuple[bytes, tuple[Ref, ...]]:
    """Return plain values as bytes, and what their slots stand for. Raises TaskError for what does not travel, and for
    more than `MOST_BYTES`."""
    refs: list[Ref] = []

    def slot(found: Any) -> msgspec.msgpack.Ext:
        if not isinstance(found, Handle):
            kind = type(found).__name__
            raise TypeError(f"a value of type {kind} does not travel; hand on handles, text, numbers, lists and dicts")
        refs.append(found.ref)
        return msgspec.msgpack.Ext(_SLOT, len(refs).to_bytes(2, "big"))

    try:
        data = msgspec.msgpack.encode(value, enc_hook=slot)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise TaskError(str(error)) from None
    if len(data) > MOST_BYTES:
        raise TaskError(f"hands on {len(data)} bytes beside handles; {MOST_BYTES} are the most")
    return data, tuple(refs)


def unpacked(data: bytes, values: Sequence[Any]) -> Any:
    """Return what was packed, with `values` in its slots. Raises ValueError for bytes that are no such thing."""

    def value(code: int, number: memoryview) -> Any:
        place = int.from_bytes(number, "big")
        if code != _SLOT or not 1 <= place <= len(values):
            raise ValueError(f"slot {place} (extension {code}) is none of {len(values)}; give a value for each")
        return values[place - 1]

    return msgspec.msgpack.decode(data, ext_hook=value)
