"""Open the database: start or join the embedded server, or connect to one by URL, and check its revision."""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import psycopg
from sqlalchemy import Connection, Engine, Executable, Row, create_engine
from sqlalchemy.engine import URL
from sqlalchemy.exc import DataError, OperationalError
from sqlalchemy.exc import TimeoutError as NoConnectionError

from control.db.cluster import SUPERUSER
from control.db.embedded import embedded_server
from control.db.errors import DatabaseUnavailableError, OldRevisionError, UnstorableError
from control.db.location import locate, redacted
from control.db.revision import check_revision, current_revision

_CONNECT_TIMEOUT_S = 10


@dataclass(frozen=True, slots=True)
class Database:
    """A database that answers; its tables are those of this release."""

    engine: Engine = field(repr=False)
    name: str
    """Name for people: the URL without its secrets, or the directory of the embedded server."""
    _within: Connection | None = field(default=None, repr=False)
    """The connection of a transaction that is under way."""

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Commit at the end of the block, roll back when it raises. DatabaseUnavailableError: the server went away."""
        if self._within is not None:
            yield self._within
            return
        with self._speaking(), self.engine.begin() as connection:
            yield connection

    def read(self, query: Executable, parameters: Any = None) -> Sequence[Row[Any]]:
        """Return all rows of one statement, in a transaction of its own."""
        with self.transaction() as connection:
            return connection.execute(query, parameters).all()

    def read_one(self, query: Executable) -> Row[Any] | None:
        """Return the row of a statement that has one at most, as `read`."""
        with self.transaction() as connection:
            return connection.execute(query).one_or_none()

    def read_column(self, query: Executable) -> Sequence[Any]:
        """Return the first value of each row, as `read`."""
        return [row[0] for row in self.read(query)]

    def write(self, statement: Executable, parameters: Any = None) -> None:
        """Execute one statement, once for each of `parameters` where they are a list, in a transaction of its own."""
        with self.transaction() as connection:
            connection.execute(statement, parameters)

    @contextmanager
    def as_one(self) -> Iterator["Database"]:
        """The database in one transaction: what is written through it in the block stands together or not at all.

        For what must not be without its account, such as a change and the event that says who made it.
        """
        with self.transaction() as connection:
            yield replace(self, _within=connection)

    @contextmanager
    def session(self) -> Iterator[Connection]:
        """A connection of its own, each statement its own transaction, closed at the end with all its locks."""
        with self._speaking(), self.engine.connect() as connection:
            connection.execution_options(isolation_level="AUTOCOMMIT").detach()
            yield connection

    def check(self) -> None:
        """Raises DatabaseUnavailableError, and OldRevisionError or NewerRevisionError when its tables have changed."""
        with self.transaction() as connection:
            check_revision(current_revision(connection), self.name)

    @contextmanager
    def _speaking(self) -> Iterator[None]:
        try:
            yield
        except NoConnectionError as error:
            raise DatabaseUnavailableError(f"too much is asked of the database {self.name} at once") from error
        except DataError as error:
            raise UnstorableError("a value cannot be stored: no text, or a number too large") from error
        except (OperationalError, psycopg.OperationalError) as error:
            if interrupt := _interrupt_behind(error):
                raise interrupt from None
            # The driver's words, in one line.
            reason = " ".join(str(error.orig if isinstance(error, OperationalError) else error).split())
            msg = f"the database {self.name} does not answer: {reason}"
            raise DatabaseUnavailableError(msg) from error


@contextmanager
def open_database(
    url: str | None = None,
    data_dir: Path | None = None,
    *,
    upgrade: bool = False,
    connections: int = 15,
    statement_timeout_s: float | None = None,
) -> Iterator[Database]:
    """The database at `url`, or the embedded one in `data_dir`; `locate` says what counts when neither is given.

    `connections`: at most, at the same time. `statement_timeout_s`: a statement that takes longer is cut off.

    `upgrade` brings the tables to this release's revision first (`medley db upgrade`). A new embedded database gets
    its tables without being asked; a server of somebody else's never does. Raises the errors of `control.db.errors`.
    """
    location = locate(url, data_dir, os.environ)
    with ExitStack() as stack:
        if location.url is not None:
            target, name = location.url, redacted(location.url)
        else:
            assert location.data_dir is not None  # noqa: S101
            server = stack.enter_context(embedded_server(location.data_dir))
            target, name = _embedded_url(server.socket_dir), str(location.data_dir)
        engine = create_engine(
            target,
            hide_parameters=True,  # values of a failed statement may be secret
            # Values in, text out: msgspec reads a JSON column into the value it was written from.
            json_serializer=_json,
            json_deserializer=bytes,
            use_native_hstore=False,  # saves a query at the first connection
            connect_args={"connect_timeout": _CONNECT_TIMEOUT_S} | _limits(statement_timeout_s),
            pool_size=min(5, connections),
            max_overflow=max(0, connections - 5),
        )
        stack.callback(engine.dispose)
        database = Database(engine, name)
        _ensure_revision(database, upgrade=upgrade, create=location.url is None)
        yield database


def _ensure_revision(database: Database, *, upgrade: bool, create: bool) -> None:
    with database.transaction() as connection:
        found = current_revision(connection)
        try:
            check_revision(found, database.name)
        except OldRevisionError:
            if not (upgrade or (create and found is None)):
                raise
            from control.db.migrate import upgrade as migrate  # Alembic is slow to import and seldom needed

            migrate(connection)


def _interrupt_behind(error: BaseException) -> KeyboardInterrupt | None:
    """The Ctrl-C that `error` came after: a command cut off in mid-stream cannot be rolled back over its connection."""
    cause = error.__context__
    while cause is not None and not isinstance(cause, KeyboardInterrupt):
        cause = cause.__context__
    return cause


def _limits(statement_timeout_s: float | None) -> dict[str, str]:
    return {} if statement_timeout_s is None else {"options": f"-c statement_timeout={int(1000 * statement_timeout_s)}"}


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _embedded_url(socket_dir: Path) -> URL:
    # The server is Medley's alone, so the database that every new cluster has is as good as one of its own.
    return URL.create("postgresql+psycopg", username=SUPERUSER, database="postgres", query={"host": str(socket_dir)})
