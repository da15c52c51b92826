"""The store of libraries in PostgreSQL."""

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import msgspec
from sqlalchemy import Connection, Row, Uuid, cast, func, select, text, update
from sqlalchemy.dialects.postgresql import insert

from control.db.database import Database
from control.db.errors import LibraryConflictError, NotStoredError
from control.db.library_info import finished_library, library_info
from control.db.library_load import load_library
from control.db.library_writer import LibraryWriter
from control.db.tables import library, library_part, library_unit, template
from templates_lib.ports.library_store import LibraryInfo, TemplateRecord
from templates_lib.ports.source import TemplateSource
from templates_lib.sources.library_union import joined_classes, union
from templates_lib.values.library import Library


@dataclass(frozen=True, slots=True)
class PostgresLibraries:
    """A `LibraryStore`. Every method also raises DatabaseUnavailableError; a LookupError is a NotStoredError."""

    database: Database

    @contextmanager
    def building(self, source: TemplateSource, parameters: Mapping[str, float]) -> Iterator[LibraryWriter]:
        with self._sole_builder(source.fingerprint):
            library_id = self._begin(source, parameters)
            counts = len(source.configs), len(source.classes), len(source.engines)
            yield LibraryWriter(self.database, library_id, *counts)

    def find(self, fingerprint: str) -> str | None:
        query = select(library.c.version).where(library.c.fingerprint == fingerprint)
        with self.database.transaction() as connection:
            version: str | None = connection.execute(query).scalar()
            return version

    def join(self, versions: Sequence[str]) -> str:
        if len(versions) == 1:
            return versions[0]
        joined = hashlib.blake2b("/".join(versions).encode(), digest_size=16).hexdigest()
        with self.database.transaction() as connection:
            rows = [finished_library(connection, version) for version in versions]
            parts = [library_info(connection, row) for row in rows]
            values = {
                "kind": "+".join(part.kind for part in parts),
                "fingerprint": joined,
                "version": joined,
                "cost_model_fingerprint": "+".join(dict.fromkeys(part.cost_model_fingerprint for part in parts)),
                "parameters": {name: value for part in parts for name, value in part.parameters.items()},
                "configs": tuple(dict.fromkeys(config for part in parts for config in part.configs)),
                "classes": joined_classes([part.classes for part in parts]),
                "engines": tuple(dict.fromkeys(engine for part in parts for engine in part.engines)),
                "finished_at": func.now(),
            }
            new = insert(library).values(values).on_conflict_do_nothing().returning(library.c.id)
            if (library_id := connection.execute(new).scalar()) is not None:
                numbered = [
                    {"library_id": library_id, "position": at, "part_id": row.id} for at, row in enumerate(rows)
                ]
                connection.execute(insert(library_part), numbered)
        return joined

    def load(self, version: str, protected: Collection[str] = ()) -> Library:
        with self.database.transaction() as connection:
            return _with(connection, load_library(connection, finished_library(connection, version)), protected)

    def part(self, version: str, template_ids: Collection[str]) -> Library:
        """Load only these templates: of this library or, for a protected template, of the newest that has it. Ids that
        no library has stay out."""
        ids = [UUID(i).hex for i in template_ids if _is_id(i)]
        with self.database.transaction() as connection:
            return _with(connection, load_library(connection, finished_library(connection, version), ids), ids)

    def record(self, version: str, template_id: str) -> TemplateRecord:
        its = select(library.c.id).where(library.c.version == version).scalar_subquery()
        is_part = (library_part.c.part_id == library.c.id) & (library_part.c.library_id == its)
        query = (
            select(library.c.kind, library.c.version, library.c.configs, template.c.nodes, template.c.record)
            .join(template, template.c.library_id == library.c.id)
            .outerjoin(library_part, is_part)
            .where(template.c.id == cast(template_id, Uuid(as_uuid=False)), library.c.version.is_not(None))
            .order_by((library.c.version == version).desc(), library_part.c.position, library.c.id.desc())
            .limit(1)
        )
        with self.database.transaction() as connection:
            row = connection.execute(query).one_or_none() if _is_id(template_id) else None
        if row is None:
            msg = f"template {template_id!r} is in no library of the database {self.database.name}"
            raise NotStoredError(msg)
        counts = zip(msgspec.json.decode(row.configs, type=tuple[str, ...]), row.nodes, strict=True)
        return TemplateRecord(row.kind, row.version, row.record, {config: n for config, n in counts if n})

    def libraries(self) -> tuple[LibraryInfo, ...]:
        with self.database.transaction() as connection:
            rows = connection.execute(select(library).order_by(library.c.id)).all()
            return tuple(library_info(connection, row) for row in rows)

    def show(self, version: str) -> LibraryInfo:
        with self.database.transaction() as connection:
            return library_info(connection, finished_library(connection, version))

    @contextmanager
    def _sole_builder(self, fingerprint: str) -> Iterator[None]:
        key = int.from_bytes(hashlib.blake2b(fingerprint.encode(), digest_size=8).digest(), signed=True)
        # A lock of the session, not of a transaction: it lasts over all units, and goes when its owner dies.
        with self.database.session() as connection:
            connection.execute(text("SELECT pg_advisory_lock(:key)"), {"key": key})
            yield

    def _begin(self, source: TemplateSource, parameters: Mapping[str, float]) -> int:
        """The id of the source's library, which is made, with every unit missing, unless it is there."""
        content = {
            "kind": source.kind,
            "cost_model_fingerprint": source.cost_model_fingerprint,
            "configs": source.configs,
            "classes": source.classes,
            "engines": source.engines,
        }
        units = source.units()
        with self.database.transaction() as connection:
            row = connection.execute(select(library).where(library.c.fingerprint == source.fingerprint)).one_or_none()
            if row is None:
                values = {**content, "fingerprint": source.fingerprint, "parameters": dict(parameters)}
                new = connection.execute(insert(library).values(values).returning(library.c.id))
                library_id: int = new.scalar_one()
                rows = [{"library_id": library_id, "position": at, "name": name} for at, name in enumerate(units)]
                connection.execute(insert(library_unit), rows)
                return library_id
            info = library_info(connection, row)
            if row.engines is None and row.version is None:
                # A release that did not keep them began it, and finished no unit: sources of several have other
                # fingerprints by now.
                new_engines = update(library).where(library.c.id == row.id).values(engines=source.engines)
                connection.execute(new_engines)
                info = replace(info, engines=source.engines)
        of_info = (info.kind, info.cost_model_fingerprint, info.configs, info.classes, info.engines)
        stored = (*of_info, tuple(unit.name for unit in info.units))
        if stored != (*content.values(), units):
            msg = (
                f"fingerprint {source.fingerprint} leaves something out: another source that has it began this library"
            )
            raise LibraryConflictError(msg)
        stored_id: int = row.id
        return stored_id


def _with(connection: Connection, loaded: Library, ids: Collection[str]) -> Library:
    """`loaded` and those of `ids` that it lacks, each from the newest library that has it."""
    present = {i.decode() for i in loaded.ids.tolist()} if ids else set()
    for row, missing in _newest_with(connection, [UUID(i) for i in ids if _is_id(i) and i not in present]):
        loaded = union(loaded, load_library(connection, row, missing))
    return loaded


def _newest_with(connection: Connection, ids: list[UUID]) -> Iterator[tuple[Row[Any], list[str]]]:
    """Rows of `library`, each with those of `ids` that no newer finished library has."""
    if not ids:
        return
    newest = (
        select(template.c.id, func.max(library.c.id))
        .join(library, library.c.id == template.c.library_id)
        .where(template.c.id.in_(ids), library.c.version.is_not(None))
        .group_by(template.c.id)
    )
    found: dict[int, list[str]] = {}
    for template_id, library_id in connection.execute(newest):
        found.setdefault(library_id, []).append(template_id.hex)
    for row in connection.execute(select(library).where(library.c.id.in_(found)).order_by(library.c.id)).all():
        yield row, found[row.id]


def _is_id(template_id: str) -> bool:
    return len(template_id) == 32 and set(template_id) <= set("0123456789abcdef")
