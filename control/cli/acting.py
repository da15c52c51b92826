"""The person who acts on the command line: who, where, and on which database."""

import getpass
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from control.actions.context import ActionContext
    from control.db.database import Database


def who() -> str:
    """The owner of the shell, as events name it; one without a name (in a container) is known by its number."""
    try:
        return f"cli:{getpass.getuser()}"
    except (KeyError, OSError):
        return f"cli:{os.getuid()}"


def home() -> Path:
    """The folder of what Medley stores on this machine."""
    from control.db.location import home_directory

    found = home_directory(os.environ)
    found.mkdir(parents=True, exist_ok=True, mode=0o700)
    return found


@contextmanager
def opened(database_url: str | None) -> "Iterator[Database]":
    """The database, which is slow to import: that waits until a command runs."""
    from control.db.database import open_database

    with open_database(database_url) as database:
        yield database


@contextmanager
def acting(database_url: str | None) -> "Iterator[ActionContext]":
    """The open database, and what actions on it need."""
    from control.actions.context import ActionContext
    from control.db.shared_clock import shared_clock

    with opened(database_url) as database:
        yield ActionContext(database, shared_clock(database)(), who())
