"""Lists in pages: a cursor says where the next one begins, whatever was added or removed meanwhile."""

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated, Generic, TypeVar

from fastapi import Query
from pydantic import BaseModel, Field

from control.api.problem import ApiError

Item = TypeVar("Item")
Row = TypeVar("Row")

MAX_LIMIT = 200
Limit = Annotated[int, Query(ge=1, le=MAX_LIMIT, description="Items of a page at most.")]
Cursor = Annotated[
    str | None, Query(max_length=512, description="`next` of the page before; without it, the first page.")
]
Key = tuple[str | int, ...]


class Items(BaseModel, Generic[Item]):
    """A list that needs no pages."""

    items: list[Item]


class Page(BaseModel, Generic[Item]):
    items: list[Item]
    next: str | None = Field(description="Cursor of the next page; null: this is the last.")


def page(rows: Sequence[Row], limit: int, shown: Callable[[Row], Item], key: Callable[[Row], Key]) -> Page[Item]:
    """A page of up to `limit` + 1 rows: the row too many says that there is a next page."""
    kept = rows[:limit]
    following = encode(key(kept[-1])) if len(rows) > limit else None
    return Page(items=[shown(row) for row in kept], next=following)


def encode(key: Key) -> str:
    return base64.urlsafe_b64encode(json.dumps(key).encode()).decode().rstrip("=")


def after(cursor: str | None, *kinds: type[str] | type[int]) -> Key | None:
    """The key that a cursor stands for; None: from the start. ApiError for what is no cursor of a list by `kinds`."""
    if cursor is None:
        return None
    try:
        key = json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
    except (binascii.Error, ValueError):
        key = None
    fits = isinstance(key, list) and len(key) == len(kinds)
    if not (fits and all(type(part) is kind and _storable(part) for part, kind in zip(key, kinds, strict=True))):
        raise not_ours()
    return tuple(key)


def before(cursor: str | None) -> tuple[datetime, str] | None:
    """The (created at, id) that a cursor of a list by them stands for, as `after`."""
    if (key := after(cursor, str, str)) is None:
        return None
    try:
        at = datetime.fromisoformat(str(key[0]))
    except ValueError:
        raise not_ours() from None
    if at.tzinfo is None:
        raise not_ours()
    return at, str(key[1])


def not_ours() -> ApiError:
    return ApiError(400, "bad-cursor", "this is not a cursor of this list: send `next` of the page before")


def _storable(part: str | int) -> bool:
    """Tell whether PostgreSQL takes it for a value: no NUL, no half of a surrogate pair, no number beyond bigint."""
    if isinstance(part, int):
        return abs(part) < 2**63
    return "\0" not in part and part.isprintable()
