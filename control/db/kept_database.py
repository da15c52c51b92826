"""The database of a process that stays: where it is the embedded one, it is kept up."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime

from control.db.database import Database, open_database
from control.db.errors import DatabaseUnavailableError
from control.db.events import PostgresEvents
from control.db.location import locate
from control.db.server_watch import kept_up
from control.lifecycle.fleet_event import RECONCILER, FleetEvent


@contextmanager
def open_kept_database(
    url: str | None,
    say: Callable[[str], None],
    *,
    upgrade: bool = False,
    connections: int = 15,
    statement_timeout_s: float | None = None,
) -> Iterator[Database]:
    """`open_database`; an embedded server that dies within the block is started again (`control.db.server_watch`).

    `say` is told of it, in a line and in another thread, and of what stands in the way.
    """
    data_dir = locate(url, None, os.environ).data_dir
    with ExitStack() as stack:
        database = stack.enter_context(
            open_database(url, upgrade=upgrade, connections=connections, statement_timeout_s=statement_timeout_s)
        )
        if data_dir is not None:
            stack.enter_context(kept_up(data_dir, say, lambda what: _restarted(database, what, say)))
        yield database


def _restarted(database: Database, what: str, say: Callable[[str], None]) -> None:
    database.engine.dispose()  # its connections are to the server that died
    say(what)
    try:
        PostgresEvents(database).add([FleetEvent(RECONCILER, "database.restarted", what)], datetime.now(UTC))
    except DatabaseUnavailableError as error:
        say(str(error))
