"""Who acts on the command line."""

import getpass
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from control.actions.context import ActionContext


def who() -> str:
    """The owner of the shell, as events name it; one without a name (in a container) is known by its number."""
    try:
        return f"cli:{getpass.getuser()}"
    except (KeyError, OSError):
        return f"cli:{os.getuid()}"


@contextmanager
def acting(database_url: str | None) -> "Iterator[ActionContext]":
    """The open database, and what actions on it need."""
    from control.actions.context import ActionContext
    from control.db.database import open_database

    with open_database(database_url) as database:
        yield ActionContext(database, datetime.now(UTC), who())
