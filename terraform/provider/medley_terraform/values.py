"""Values of attributes: as Terraform sends them, and as plain Python."""

import json
from typing import Any

from medley_terraform.types import Collection, Many, Nested, Nesting, Scalar, Type
from medley_terraform.unknown import Unknown


def plain(kind: Type, raw: Any) -> Any:
    """A value that came from Terraform. What is unknown stays `Unknown`."""
    if raw is None or isinstance(raw, Unknown):
        return raw
    match kind:
        case Many(Collection.MAP, item):
            return {key: plain(item, each) for key, each in raw.items()}
        case Many(_, item):
            return [plain(item, each) for each in raw]
        case Nested():
            return _plain_nested(kind, raw)
        case _:
            return _plain_scalar(kind, raw)


def raw_of(kind: Type, value: Any, like: Any = None) -> Any:
    """A plain value for Terraform. Where `like`, which came from it, means the same, `like` itself: Terraform compares
    texts and exact decimals."""
    if value is None or isinstance(value, Unknown):
        return value
    if like is not None and not isinstance(like, Unknown) and same(kind, plain(kind, like), value):
        return like
    match kind:
        case Many(Collection.MAP, item):
            return {key: raw_of(item, each) for key, each in value.items()}
        case Many(_, item):
            return [raw_of(item, each) for each in value]
        case Nested():
            return _raw_nested(kind, value, like)
        case _:
            return _raw_scalar(kind, value)


def same(kind: Type, one: Any, other: Any) -> bool:
    """Return whether two plain values mean the same to Terraform: sets have no order."""
    if isinstance(kind, Many) and kind.collection is Collection.SET and isinstance(one, list):
        return isinstance(other, list) and sorted(map(str, one)) == sorted(map(str, other))
    if isinstance(kind, Nested) and type(one) is type(other):
        if kind.nesting is Nesting.SINGLE and isinstance(one, dict):
            return all(same(e.type, one.get(e.name), other.get(e.name)) for e in kind.attributes)
        if isinstance(one, dict):
            return one.keys() == other.keys() and all(same(kind.one, one[key], other[key]) for key in one)
        if isinstance(one, list):
            return len(one) == len(other) and all(
                same(kind.one, each, its) for each, its in zip(one, other, strict=True)
            )
    return bool(one == other)


def _plain_nested(kind: Nested, raw: Any) -> Any:
    match kind.nesting:
        case Nesting.SINGLE:
            return {each.name: plain(each.type, raw.get(each.name)) for each in kind.attributes}
        case Nesting.LIST:
            return [plain(kind.one, each) for each in raw]
        case Nesting.MAP:
            return {key: plain(kind.one, each) for key, each in raw.items()}


def _raw_nested(kind: Nested, value: Any, like: Any) -> Any:
    match kind.nesting:
        case Nesting.SINGLE:
            before = like if isinstance(like, dict) else {}
            return {e.name: raw_of(e.type, value.get(e.name), before.get(e.name)) for e in kind.attributes}
        case Nesting.LIST:
            old = like if isinstance(like, list) and len(like) == len(value) else [None] * len(value)
            return [raw_of(kind.one, each, its) for each, its in zip(value, old, strict=True)]
        case Nesting.MAP:
            there = like if isinstance(like, dict) else {}
            return {key: raw_of(kind.one, each, there.get(key)) for key, each in value.items()}


def _plain_scalar(kind: Scalar, raw: Any) -> Any:
    match kind:
        case Scalar.NUMBER:
            number = float(raw) if isinstance(raw, str) else raw
            return int(number) if isinstance(number, float) and number.is_integer() else number
        case Scalar.JSON:
            return json.loads(raw)
        case _:
            return raw


def _raw_scalar(kind: Scalar, value: Any) -> Any:
    match kind:
        case Scalar.NUMBER if isinstance(value, float):
            return int(value) if value.is_integer() and abs(value) < 2**53 else repr(value)
        case Scalar.JSON:
            return json.dumps(value, sort_keys=True)
        case _:
            return value
