"""The time that all processes of an installation go by: the database's, whatever becomes of their own clocks."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from sqlalchemy import func, select

from control.db.database import Database

_SINCE_BOOT = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""It counts on while a machine sleeps, and nobody can set it."""


def shared_clock(database: Database) -> Callable[[], datetime]:
    """Ask the database for the time, once, and go on from there: clocks that are set to another time, on this machine
    or the database's, end no token, lose no instance and cost nothing. The time is UTC. Raises
    DatabaseUnavailableError."""
    before_s = _since_boot_s()
    (row,) = database.read(select(func.clock_timestamp()))
    half = timedelta(seconds=(_since_boot_s() - before_s) / 2)
    began: datetime = row[0].astimezone(UTC) - half
    return lambda: began + timedelta(seconds=_since_boot_s() - before_s)


def _since_boot_s() -> float:
    return time.clock_gettime(_SINCE_BOOT)
