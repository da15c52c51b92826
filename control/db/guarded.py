"""Guarded writes: whoever changes a row names the version that he has read."""

from sqlalchemy import Connection, Table, select

from control.db.errors import StaleVersionError
from control.db.nearest import not_stored


def check_version(what: str, there: int, read: int) -> None:
    """Raises StaleVersionError unless `what` is at the version that was read."""
    if there != read:
        raise StaleVersionError(f"{what} is at version {there}, not {read}: read it again")


def lock_row(connection: Connection, table: Table, name: str, read: int) -> None:
    """Lock a row, so that nobody else changes it before the transaction has ended. Raises NotStoredError with the
    nearest name of the table, and as `check_version`."""
    of_it = select(table.c.version).where(table.c.name == name).with_for_update()
    there = connection.execute(of_it).scalar_one_or_none()
    if there is None:
        raise not_stored(table.name, name, connection.execute(select(table.c.name)).scalars().all())
    check_version(f"{table.name} {name!r}", there, read)
