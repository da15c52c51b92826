"""Revision of the tables, judged without loading Alembic."""

from sqlalchemy import Connection, text

from control.db.errors import NewerRevisionError, OldRevisionError

REVISIONS = tuple(f"{number:04}" for number in range(1, 32))
"""Every revision in `migrations/versions`, oldest first (a test holds the two equal)."""


def current_revision(connection: Connection) -> str | None:
    """Return the revision of Medley's tables; None when they are not there."""
    if connection.execute(text("SELECT to_regclass('alembic_version')")).scalar() is None:
        return None
    revision: str | None = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return revision


def check_revision(found: str | None, where: str) -> None:
    """Raise OldRevisionError or NewerRevisionError unless the tables are those of this release."""
    head = REVISIONS[-1]
    if found == head:
        return
    if found is None:
        msg = f"the database {where} has no Medley tables: run `medley db upgrade`"
        raise OldRevisionError(msg)
    if found in REVISIONS:
        msg = f"the database {where} is at revision {found}, this release needs {head}: run `medley db upgrade`"
        raise OldRevisionError(msg)
    msg = (
        f"the database {where} is at revision {found}, which this release (revision {head}) does not know: "
        f"it was upgraded by a newer Medley; install that one or use another database"
    )
    raise NewerRevisionError(msg)
