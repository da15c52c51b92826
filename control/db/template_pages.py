"""Templates of a library in pages, each with what it sustains of one work class."""

from dataclasses import dataclass
from uuid import UUID

import msgspec
from sqlalchemy import func, select

from control.db.database import Database
from control.db.library_info import finished_library
from control.db.nearest import not_stored
from control.db.tables import capacity, template
from templates_lib.values.work import WorkClass


@dataclass(frozen=True, slots=True)
class ListedTemplate:
    id: str
    nodes: dict[str, int]
    """Node configuration → how many."""
    units_per_s: float
    """Of the work class, at the operating point that gives most of it."""


def template_page(
    database: Database, version: str, work_class: str, limit: int, after: str = ""
) -> tuple[ListedTemplate, ...]:
    """By id, those that follow `after` and do work of the class. Raises NotStoredError for an unknown library or class.

    An `after` that is no id is before all of them.
    """
    with database.transaction() as connection:
        row = finished_library(connection, version)
        classes = [each.id for each in msgspec.json.decode(row.classes, type=tuple[WorkClass, ...])]
        if work_class not in classes:
            raise not_stored("work class", work_class, classes)
        t, c = template.c, capacity.c
        same = (c.library_id == t.library_id) & (c.unit == t.unit) & (c.ordinal == t.ordinal)
        does = same & (c["class"] == classes.index(work_class))
        most = select(func.max(c.units_per_s)).where(does).correlate(template).scalar_subquery()
        query = select(t.id, t.nodes, most.label("units_per_s")).where(t.library_id == row.id)
        query = query.where(select(c.unit).where(does).correlate(template).exists())
        if (last := _uuid(after)) is not None:
            query = query.where(t.id > last)
        rows = connection.execute(query.order_by(t.id).limit(limit)).all()
    configs = msgspec.json.decode(row.configs, type=tuple[str, ...])
    return tuple(
        ListedTemplate(r.id.hex, {name: n for name, n in zip(configs, r.nodes, strict=True) if n}, r.units_per_s)
        for r in rows
    )


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
