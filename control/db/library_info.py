"""Rows of `library` and `library_unit` as the values that callers see."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, select

from control.db.nearest import not_stored
from control.db.tables import library, library_part, library_unit
from templates_lib.ports.library_store import LibraryInfo, UnitInfo
from templates_lib.values.engine_set import UNKNOWN
from templates_lib.values.work import WorkClass


def finished_library(connection: Connection, version: str) -> Row[Any]:
    """Return its row of `library`; NotStoredError, with the nearest version, for an unknown one."""
    row = connection.execute(select(library).where(library.c.version == version)).one_or_none()
    if row is None:
        versions = connection.execute(select(library.c.version).where(library.c.version.is_not(None))).scalars()
        raise not_stored("library", version, [v for v in versions if v is not None])
    return row


def parts_of(connection: Connection, row: Row[Any]) -> Sequence[Row[Any]]:
    """The rows of `library` whose templates the library of `row` has, in order: those that it is made of, or itself."""
    parts = select(library).join(library_part, library_part.c.part_id == library.c.id)
    parts = parts.where(library_part.c.library_id == row.id).order_by(library_part.c.position)
    return connection.execute(parts).all() or [row]


def engines_kept(row: Row[Any]) -> tuple[str, ...]:
    """The engines of its templates; of a library of a release that did not keep them, none that is known."""
    return (UNKNOWN,) if row.engines is None else msgspec.json.decode(row.engines, type=tuple[str, ...])


def library_info(connection: Connection, row: Row[Any]) -> LibraryInfo:
    units = select(library_unit).order_by(library_unit.c.position)
    return LibraryInfo(
        version=row.version or "",
        kind=row.kind,
        fingerprint=row.fingerprint,
        cost_model_fingerprint=row.cost_model_fingerprint,
        parameters=msgspec.json.decode(row.parameters, type=dict[str, float]),
        configs=msgspec.json.decode(row.configs, type=tuple[str, ...]),
        classes=msgspec.json.decode(row.classes, type=tuple[WorkClass, ...]),
        engines=engines_kept(row),
        units=tuple(
            UnitInfo(u.name, u.digest is not None, u.sets, u.templates, u.kept, u.seconds)
            for part in parts_of(connection, row)
            for u in connection.execute(units.where(library_unit.c.library_id == part.id))
        ),
        created_at=_iso(row.created_at),
        finished_at=_iso(row.finished_at),
    )


def _iso(moment: datetime | None) -> str:
    return "" if moment is None else moment.astimezone(UTC).isoformat()
