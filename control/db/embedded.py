"""The embedded server: a real PostgreSQL in a directory of Medley's own, shared by all commands that use it.

Two files are locked with flock, which the kernel releases however a process ends:

- `turn.lock`, exclusively, while somebody starts or stops the server;
- `users.lock`, shared, by everybody who uses it.

Who leaves takes his turn, gives up his share of `users.lock`, and stops the server when he can then lock that file
exclusively: nobody else uses it. A command that is killed leaves the server running; the next one uses it, and stops
it on leaving. The directory is Medley's alone, so a server found in it is ours to stop. A server that dies is started
again by whoever comes next, or by a process that stays (`control.db.server_watch`).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from control.db.cluster import PostgresCluster, ServerAddress
from control.db.errors import EmbeddedServerError
from control.file_lock import lock, try_lock, unlock


@contextmanager
def embedded_server(home: Path) -> Iterator[ServerAddress]:
    """Start the server of `home`, or join it; stop it on leaving unless somebody else uses it.

    Raises EmbeddedServerError, with the end of the server's log, when it cannot be started.
    """
    cluster = PostgresCluster.of(home)
    with _lock_file(home, "users.lock") as users:
        try:
            with turn(home):
                if not try_lock(users):  # somebody uses it
                    cluster.check_data()  # a new and empty one would have all that runs taken for orphans
                lock(users, shared=True)
                cluster.ensure_running()
            yield cluster.address()
        finally:
            with turn(home):
                unlock(users)  # a forked child that still has a copy of the descriptor is no user
                if try_lock(users):
                    cluster.stop()


@contextmanager
def turn(home: Path) -> Iterator[None]:
    """Hold the lock under which the server may be started or stopped: one process at a time."""
    with _lock_file(home, "turn.lock") as file:
        lock(file)
        yield


@contextmanager
def _lock_file(home: Path, name: str) -> Iterator[IO[bytes]]:
    try:
        home.mkdir(parents=True, exist_ok=True)
        file = (home / name).open("ab")
    except OSError as error:
        msg = f"the database directory {home} cannot be used: {error.strerror} (set MEDLEY_HOME to another)"
        raise EmbeddedServerError(msg) from error
    with file:
        yield file
