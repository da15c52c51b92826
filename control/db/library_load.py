"""Rows of a library as arrays."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import psycopg
from numpy.typing import NDArray
from sqlalchemy import Connection, Row, func, select

from control.db.errors import LibraryConflictError
from control.db.library_info import engines_kept, parts_of
from control.db.library_rows import (
    SELECT_CAPACITY,
    SELECT_LIMITS,
    SELECT_TEMPLATES,
    capacity_row_dtype,
    hex_ids,
    template_row_dtype,
)
from control.db.tables import library_unit
from templates_lib.sources.library_union import union
from templates_lib.values.library import Library
from templates_lib.values.template import Limit
from templates_lib.values.work import WorkClass


def load_library(connection: Connection, row: Row[Any], ids: Collection[str] | None = None) -> Library:
    """The library of a row of `library`, or only its templates with these ids.

    Raises LibraryConflictError when rows of a whole library are missing.
    """
    whole, *others = (_load_part(connection, part, ids) for part in parts_of(connection, row))
    for other in others:
        # What an earlier source gives is not given once more.
        whole = union(whole, other.select(~np.isin(other.ids, whole.ids)))
    return replace(whole, version=row.version, cost_model_fingerprint=row.cost_model_fingerprint)


def _load_part(connection: Connection, row: Row[Any], ids: Collection[str] | None) -> Library:
    configs = msgspec.json.decode(row.configs, type=tuple[str, ...])
    wanted = {"library": row.id, "ids": None if ids is None else list(ids)}
    templates = _packed_rows(connection, SELECT_TEMPLATES, wanted, template_row_dtype(len(configs)))
    entries = _packed_rows(connection, SELECT_CAPACITY, wanted, capacity_row_dtype())
    templates = templates[np.argsort(_place(templates))]
    entries = entries[np.lexsort((entries["class"], entries["point"], _place(entries)))]
    # An entry's template, and its point: a new one begins wherever template or point changes.
    entry_template = np.searchsorted(_place(templates), _place(entries)).astype(np.int32)
    begins = np.ones(len(entries), dtype=np.bool_)
    begins[1:] = (np.diff(entry_template) != 0) | (np.diff(entries["point"]) != 0)
    library = Library(
        version=row.version,
        cost_model_fingerprint=row.cost_model_fingerprint,
        configs=configs,
        classes=msgspec.json.decode(row.classes, type=tuple[WorkClass, ...]),
        ids=hex_ids(templates["id"]),
        nodes=np.ascontiguousarray(templates["nodes"]),
        point_template=entry_template[begins],
        entry_point=(np.cumsum(begins) - 1).astype(np.int32),
        entry_class=entries["class"].astype(np.int16),
        entry_units_per_s=entries["units_per_s"].astype(np.float64),
        engines=engines_kept(row),
        template_engine=templates["engine"].astype(np.int16),
    )
    if ids is None:
        _check_whole(connection, row, library)
    return replace(library, limits=_limits(connection, library, wanted))


def _limits(connection: Connection, library: Library, wanted: dict[str, Any]) -> dict[str, tuple[Limit, ...]]:
    """Template → its limits, of those of a library, loaded but for these, that have some."""
    names = [each.id for each in library.classes]
    uses: dict[str, dict[str, list[float]]] = {}
    for template, number, of in _driver(connection).execute(SELECT_LIMITS, wanted):
        uses.setdefault(template.hex, {})[names[number]] = of
    return {
        template: tuple(dict(zip(of, row, strict=True)) for row in zip(*of.values(), strict=True))
        for template, of in uses.items()
    }


def _packed_rows(connection: Connection, query: str, wanted: dict[str, Any], dtype: np.dtype[np.void]) -> NDArray[Any]:
    with _driver(connection).cursor(binary=True) as cursor:
        return np.frombuffer(b"".join(packed for (packed,) in cursor.execute(query, wanted)), dtype=dtype)


def _driver(connection: Connection) -> psycopg.Connection[Any]:
    raw = connection.connection.driver_connection
    assert isinstance(raw, psycopg.Connection)  # noqa: S101
    return raw


def _place(rows: NDArray[Any]) -> NDArray[np.int64]:
    """(unit, ordinal) as one number: the order of templates in a library."""
    place: NDArray[np.int64] = rows["unit"].astype(np.int64) << 32 | rows["ordinal"]
    return place


def _check_whole(connection: Connection, row: Row[Any], library: Library) -> None:
    kept = connection.execute(
        select(func.sum(library_unit.c.kept)).where(library_unit.c.library_id == row.id)
    ).scalar_one()
    with_capacity = np.count_nonzero(np.diff(library.point_template, prepend=-1))
    if library.size != kept or with_capacity != kept:
        whole = min(library.size, with_capacity)
        msg = f"library {row.version} has lost rows, {whole} of {kept} templates are whole: restore the database"
        raise LibraryConflictError(msg)
