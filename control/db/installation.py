"""Owner of nodes: the tag by which a control plane knows its own, made once and kept in its database."""

import secrets

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert

from control.db.database import Database
from control.db.reconcile_tables import installation

_BYTES = 5


def owner_of(database: Database) -> str:
    """The same for every process on this database, and another one than of any other database: two control planes that
    share a cloud account never take each other's nodes for orphans. Raises DatabaseUnavailableError."""
    new = insert(installation).values(id=1, owner=f"m{secrets.token_hex(_BYTES)}").on_conflict_do_nothing()
    with database.transaction() as connection:
        connection.execute(new)
        return str(connection.execute(select(installation.c.owner)).scalar_one())
