"""Ids by their beginning, as commands print them."""

import re
from typing import Any
from uuid import UUID

from sqlalchemy import Column, ColumnElement, select

from control.db.database import Database
from control.db.errors import AmbiguousIdError
from control.db.fleet_tables import instance
from control.db.nearest import not_stored
from control.db.tables import library, plan, template

_COLUMNS: dict[str, Column[Any]] = {
    "plan": plan.c.id,
    "instance": instance.c.id,
    "library": library.c.version,
    "template": template.c.id,
}
_DIGITS = 32


def whole_id(database: Database, what: str, given: str) -> str:
    """Return the one id of a `what` that is `given` or begins with it. Raises NotStoredError where none does,
    AmbiguousIdError where several do, and DatabaseUnavailableError."""
    column = _COLUMNS[what]
    begun = select(column).where(_begins(column, given)).distinct().order_by(column).limit(2)
    with database.transaction() as connection:
        ids = [_text(each) for each in connection.execute(begun).scalars()]
        if not ids:
            # Of templates there are too many to look for the nearest.
            every = select(column).where(column.is_not(None))
            known = [] if column is template.c.id else [str(each) for each in connection.execute(every).scalars()]
            raise not_stored(what, given, known)
    if len(ids) > 1 and ids[0] != given:
        raise AmbiguousIdError(f"more than one {what} begins with {given!r}, such as {ids[0]!r}; give more of the id")
    return ids[0]


def _begins(column: Column[Any], given: str) -> ColumnElement[bool]:
    if column is not template.c.id:
        return column.startswith(given, autoescape=True)
    if not re.fullmatch(rf"[0-9a-f]{{1,{_DIGITS}}}", given):
        return column.in_(())
    return column.between(UUID(given.ljust(_DIGITS, "0")), UUID(given.ljust(_DIGITS, "f")))


def _text(id_: Any) -> str:
    return id_.hex if isinstance(id_, UUID) else str(id_)
