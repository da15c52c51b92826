"""An API with its console in a thread of another process, which ends with that process."""

import asyncio
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from control.api.process import server
from control.api.settings import ApiSettings
from control.db.database import open_database
from control.listener import listening, url_of


@contextmanager
def serving_in_thread(settings: ApiSettings, database_url: str | None, environment: Mapping[str, str]) -> Iterator[str]:
    """Serve in a thread; the URL. Where its port is taken it takes any. Raises what opening the database raises."""
    with (
        _listener(settings) as listener,
        open_database(
            database_url, connections=settings.threads, statement_timeout_s=settings.statement_timeout_s
        ) as database,
    ):
        served = server(settings, database, database_url, "", environment)
        thread = threading.Thread(target=lambda: asyncio.run(served.serve(sockets=[listener])), name="api", daemon=True)
        thread.start()
        try:
            yield url_of(listener)
        finally:
            served.should_exit = True
            thread.join()


def _listener(settings: ApiSettings) -> socket.socket:
    try:
        return listening(settings.host, settings.port)
    except OSError:
        return listening(settings.host, 0)
