"""Templates of a library in pages, each with what it sustains of one work class."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import msgspec
from sqlalchemy import Connection, Row, func, select

from control.db.database import Database
from control.db.library_info import finished_library, parts_of
from control.db.nearest import not_stored
from control.db.tables import capacity, template
from templates_lib.values.work import WorkClass


@dataclass(frozen=True, slots=True)
class TemplateSummary:
    id: str
    nodes: dict[str, int]
    """Node configuration → how many."""
    units_per_s: float
    """Capacity for the work class, at the operating point that gives most of it."""


def template_page(
    database: Database, version: str, work_class: str, limit: int, after: str = ""
) -> tuple[TemplateSummary, ...]:
    """List templates by id, those that follow `after` and do work of the class. Raises NotStoredError for an unknown
    library or class.

    An `after` that is no id is before all of them.
    """
    with database.transaction() as connection:
        row = finished_library(connection, version)
        classes = [each.id for each in msgspec.json.decode(row.classes, type=tuple[WorkClass, ...])]
        if work_class not in classes:
            raise not_stored("work class", work_class, classes)
        parts, found = parts_of(connection, row), list[TemplateSummary]()
        for at, part in enumerate(parts):
            earlier = [each.id for each in parts[:at]]
            found += _of_part(connection, part, earlier, work_class, limit, _uuid(after))
    return tuple(sorted(found, key=lambda each: each.id)[:limit])


def _of_part(
    connection: Connection, row: Row[Any], earlier: list[int], work_class: str, limit: int, after: UUID | None
) -> Iterator[TemplateSummary]:
    """Yield the templates of one library that none of the `earlier` ones has."""
    classes = [each.id for each in msgspec.json.decode(row.classes, type=tuple[WorkClass, ...])]
    if work_class not in classes:
        return
    t, c, other = template.c, capacity.c, template.alias()
    same = (c.library_id == t.library_id) & (c.unit == t.unit) & (c.ordinal == t.ordinal)
    does = same & (c["class"] == classes.index(work_class))
    most = select(func.max(c.units_per_s)).where(does).correlate(template).scalar_subquery()
    query = select(t.id, t.nodes, most.label("units_per_s")).where(t.library_id == row.id)
    query = query.where(select(c.unit).where(does).correlate(template).exists())
    if earlier:
        query = query.where(t.id.not_in(select(other.c.id).where(other.c.library_id.in_(earlier))))
    if after is not None:
        query = query.where(t.id > after)
    configs = msgspec.json.decode(row.configs, type=tuple[str, ...])
    for r in connection.execute(query.order_by(t.id).limit(limit)):
        yield TemplateSummary(r.id.hex, {name: n for name, n in zip(configs, r.nodes, strict=True) if n}, r.units_per_s)


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
