"""Projects in PostgreSQL: fleets, keys and budgets belong to one."""

from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert

from control.access.use_limits import NO_LIMITS, UseLimits
from control.db.api_tables import project
from control.db.database import Database
from control.db.errors import InUseError
from control.db.guarded import lock_row
from control.db.nearest import not_stored
from control.db.reconcile_tables import fleet


@dataclass(frozen=True, slots=True)
class Project:
    name: str
    description: str
    fleets: int
    version: int
    created_at: datetime
    updated_at: datetime
    limits: UseLimits = NO_LIMITS
    """Of all its tokens together."""


@dataclass(frozen=True, slots=True)
class PostgresProjects:
    """Every method also raises DatabaseUnavailableError; those that name a project NotStoredError with the nearest;
    those that name a version StaleVersionError, and write nothing, when it is at another."""

    database: Database

    def create(self, name: str, description: str, now: datetime, limits: UseLimits = NO_LIMITS) -> Project:
        """Create a project. Raises InUseError when there is one of that name."""
        with self.database.transaction() as connection:
            if not _add(connection, name, description, now, limits):
                raise InUseError(f"there is a project {name!r} already: change that one, or choose another name")
            return _load(connection, name)

    def ensure(self, name: str, now: datetime) -> None:
        """Make the project unless it is there, for callers who name one without having made it: on the command line
        that is how one is made."""
        with self.database.transaction() as connection:
            _add(connection, name, "", now, NO_LIMITS)

    def change(self, name: str, version: int, description: str, limits: UseLimits, now: datetime) -> Project:
        values = {"description": description, "version": version + 1, "updated_at": now, **asdict(limits)}
        with self.database.transaction() as connection:
            lock_row(connection, project, name, version)
            connection.execute(update(project).where(project.c.name == name).values(values))
            return _load(connection, name)

    def remove(self, name: str, version: int) -> None:
        """Remove a project. Raises InUseError while it has fleets."""
        with self.database.transaction() as connection:
            lock_row(connection, project, name, version)
            if fleets := _load(connection, name).fleets:
                raise InUseError(f"project {name!r} has {fleets} fleets: remove or move them first")
            connection.execute(delete(project).where(project.c.name == name))

    def load(self, name: str) -> Project:
        with self.database.transaction() as connection:
            return _load(connection, name)

    def limits(self) -> dict[str, UseLimits]:
        """Return the limits of those projects that have any."""
        rows = self.database.read(select(project.c.name, *(project.c[each.name] for each in fields(UseLimits))))
        return {row.name: limits for row in rows if (limits := _limits(row))}

    def page(self, limit: int, after: str = "") -> tuple[Project, ...]:
        """List projects by name, those that follow `after`."""
        query = _query().where(project.c.name > after).order_by(project.c.name).limit(limit)
        return tuple(_project(row) for row in self.database.read(query))


def _add(connection: Connection, name: str, description: str, now: datetime, limits: UseLimits) -> bool:
    """Add a project; False when there is one of that name."""
    row = {"name": name, "description": description, "version": 1, "created_at": now, "updated_at": now}
    row |= asdict(limits)
    added = insert(project).values(row).on_conflict_do_nothing().returning(project.c.name)
    return connection.execute(added).scalar_one_or_none() is not None


def _query() -> Any:
    fleets = select(func.count()).where(fleet.c.project == project.c.name).scalar_subquery()
    return select(project, fleets.label("fleets"))


def _load(connection: Connection, name: str) -> Project:
    row = connection.execute(_query().where(project.c.name == name)).one_or_none()
    if row is None:
        raise not_stored("project", name, connection.execute(select(project.c.name)).scalars().all())
    return _project(row)


def _project(row: Row[Any]) -> Project:
    times = (row.created_at, row.updated_at)
    return Project(row.name, row.description, row.fleets, row.version, *times, _limits(row))


def _limits(row: Row[Any]) -> UseLimits:
    return UseLimits(row.requests_per_minute, row.tokens_per_minute, row.concurrent_requests)
