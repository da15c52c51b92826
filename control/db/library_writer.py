"""One library being written, unit by unit."""

import hashlib
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import psycopg
from numpy.typing import NDArray
from sqlalchemy import func, select, update

from control.db.database import Database
from control.db.errors import LibraryConflictError
from control.db.library_rows import (
    COPY_CAPACITY,
    COPY_LIMITED,
    COPY_TEMPLATE,
    LIMITED_TYPES,
    capacity_copy,
    limited_rows,
    template_copy,
    unit_digest,
)
from control.db.tables import library, library_unit
from templates_lib.ports.source import TemplateBatch


@dataclass(frozen=True, slots=True)
class LibraryWriter:
    """A `LibraryBuild`, made by `PostgresLibraries.building`, which keeps other builders of the library out."""

    database: Database
    library_id: int
    config_count: int
    class_count: int
    engine_count: int

    @property
    def missing(self) -> tuple[str, ...]:
        query = select(library_unit.c.name).where(
            library_unit.c.library_id == self.library_id, library_unit.c.digest.is_(None)
        )
        return tuple(self.database.read_column(query.order_by(library_unit.c.position)))

    def add(self, batch: TemplateBatch, seconds: float) -> None:
        _check_batch(batch, self.config_count, self.class_count, self.engine_count)
        with self.database.transaction() as connection:
            # Updating the unit's row first locks it: were the build's lock ever lost, a second writer would wait
            # here and then find the unit done.
            done = update(library_unit).where(
                library_unit.c.library_id == self.library_id,
                library_unit.c.name == batch.unit,
                library_unit.c.digest.is_(None),
            )
            counts = {
                "sets": batch.sets,
                "templates": batch.templates,
                "kept": len(batch.ids),
                "seconds": seconds,
            }
            done = done.values(digest=unit_digest(batch), **counts)
            position = connection.execute(done.returning(library_unit.c.position)).scalar_one_or_none()
            if position is None:
                msg = f"unit {batch.unit!r} is not one that this library still misses"
                raise LibraryConflictError(msg)
            raw = connection.connection.driver_connection
            assert isinstance(raw, psycopg.Connection)  # noqa: S101
            try:
                with raw.cursor() as cursor:
                    with cursor.copy(COPY_TEMPLATE) as copy:
                        for chunk in template_copy(self.library_id, position, batch):
                            copy.write(chunk)
                    _copy_capacity(cursor, self.library_id, position, batch)
            except psycopg.errors.UniqueViolation as error:
                msg = f"unit {batch.unit!r} has a template that another unit has too ({error.diag.message_detail})"
                raise LibraryConflictError(msg) from error

    def finish(self) -> str:
        """Raises LibraryConflictError while units are missing."""
        with self.database.transaction() as connection:
            row = connection.execute(select(library).where(library.c.id == self.library_id).with_for_update()).one()
            if row.version is not None:
                return str(row.version)
            units = connection.execute(
                select(library_unit.c.name, library_unit.c.digest)
                .where(library_unit.c.library_id == self.library_id)
                .order_by(library_unit.c.position)
            ).all()
            if missing := [name for name, digest in units if digest is None]:
                msg = f"the library still misses {', '.join(missing)}"
                raise LibraryConflictError(msg)
            identity = (row.kind, row.fingerprint, row.cost_model_fingerprint, row.configs, row.classes)
            content = msgspec.json.encode((identity, [(name, digest) for name, digest in units]))
            version = hashlib.blake2b(content, digest_size=16).hexdigest()
            finished = update(library).where(library.c.id == self.library_id)
            connection.execute(finished.values(version=version, finished_at=func.now()))
            return version


def _copy_capacity(cursor: psycopg.Cursor[Any], library_id: int, unit: int, batch: TemplateBatch) -> None:
    if not batch.limits:
        with cursor.copy(COPY_CAPACITY) as copy:
            for chunk in capacity_copy(library_id, unit, batch):
                copy.write(chunk)
        return
    with cursor.copy(COPY_LIMITED) as copy:
        copy.set_types(LIMITED_TYPES)
        for row in limited_rows(library_id, unit, batch):
            copy.write_row(row)


def _check_batch(batch: TemplateBatch, config_count: int, class_count: int, engine_count: int) -> None:
    """Raise ValueError that names the unit and what is wrong with it."""
    size, points, entries = len(batch.ids), len(batch.point_template), len(batch.entry_point)
    complaints = {
        "ids are not 32 hexadecimal digits each": not _all_hex(batch.ids),
        "a template comes twice": len(np.unique(batch.ids)) != size,
        f"nodes are not uint8 of shape ({size}, {config_count})": (
            batch.nodes.shape != (size, config_count) or batch.nodes.dtype != np.uint8
        ),
        "a template has no nodes": bool((batch.nodes.sum(axis=1) == 0).any()),
        f"engines are not {size}": len(batch.template_engine) != size,
        "an engine is unknown": bool(((batch.template_engine < 0) | (batch.template_engine >= engine_count)).any()),
        f"records are not {size}": len(batch.records) != size,
        "a template has no operating point": not _covers(batch.point_template, size),
        "an operating point has no capacity": not _covers(batch.entry_point, points),
        "capacity arrays differ in length": len(batch.entry_class) != entries
        or len(batch.entry_units_per_s) != entries,
        "a work class is unknown": bool(((batch.entry_class < 0) | (batch.entry_class >= class_count)).any()),
        "a capacity is not a positive number": not bool(
            (np.isfinite(batch.entry_units_per_s) & (batch.entry_units_per_s > 0)).all()
        ),
        "a limit is not one number of at least 0 for each class of a template with one point": not all(
            _is_limited(batch, ordinal, limits) for ordinal, limits in batch.limits.items()
        ),
    }
    for complaint, is_true in complaints.items():
        if is_true:
            raise ValueError(f"unit {batch.unit!r} of the template source cannot be stored: {complaint}")


def _is_limited(batch: TemplateBatch, ordinal: int, limits: tuple[tuple[float, ...], ...]) -> bool:
    points = np.flatnonzero(batch.point_template == ordinal)
    if len(points) != 1 or not limits:
        return False
    classes = int(np.count_nonzero(batch.entry_point == points[0]))
    uses = np.array([use for limit in limits for use in limit])
    return all(len(limit) == classes for limit in limits) and bool((np.isfinite(uses) & (uses >= 0)).all())


def _all_hex(ids: NDArray[np.bytes_]) -> bool:
    if ids.dtype != np.dtype("S32"):
        return False
    digits = ids.view(np.uint8)
    return bool((((digits >= ord("0")) & (digits <= ord("9"))) | ((digits >= ord("a")) & (digits <= ord("f")))).all())


def _covers(parents: NDArray[np.int32], count: int) -> bool:
    """Tell whether non-decreasing `parents` name each of 0 … count - 1 at least once, and nothing else."""
    if count == 0:
        return len(parents) == 0
    steps = np.diff(parents)
    return bool(
        len(parents) > 0 and parents[0] == 0 and parents[-1] == count - 1 and ((steps == 0) | (steps == 1)).all()
    )
