"""Leadership: one reconciler at a time, by an advisory lock, in an epoch that fences off a former leader."""

from contextlib import ExitStack, suppress
from datetime import datetime

from sqlalchemy import Connection, select, text
from sqlalchemy.dialects.postgresql import insert

from control.db.database import Database
from control.db.errors import DatabaseUnavailableError, DeposedError
from control.db.reconcile_tables import leader

_LOCK = 0x6D65646C_656164  # "medlead"; any constant that all releases share


class PostgresLeader:
    """One process's claim to lead. Not thread-safe. The server frees the lock when its connection ends.

    A leader that hangs keeps the lock until its connection is cut; one whose connection was cut may go on for a moment
    while the next leads already. Therefore every intent is written in a transaction that checks the epoch
    (`check_epoch`), and what a call that was under way then does is found by name and tag, as after a crash.
    """

    def __init__(self, database: Database, holder: str) -> None:
        """`holder`: for people, such as host and process id."""
        self._database = database
        self._holder = holder
        self._held: ExitStack | None = None
        self._connection: Connection | None = None
        self._epoch = 0
        self.is_lost = False
        """Somebody else was found to lead after this one had, or the database to be replaced by another state."""

    @property
    def epoch(self) -> int:
        """Epoch of the last time that it led; 0: never."""
        return self._epoch

    def lead(self, now: datetime) -> bool:
        """Try to lead, if nobody does, and return whether this process leads. DatabaseUnavailableError: it leads no
        more."""
        if self._connection is not None:
            try:
                self._connection.execute(text("SELECT 1"))
            except Exception as error:
                self.resign()
                raise DatabaseUnavailableError(f"the connection that held the lead is gone: {error}") from error
            return True
        held = ExitStack()
        try:
            connection = held.enter_context(self._database.session())
            if not connection.execute(text("SELECT pg_try_advisory_lock(:key)"), {"key": _LOCK}).scalar_one():
                held.close()
                self.is_lost = self._epoch > 0  # who never led has lost nothing, and stands by
                return False
            held.callback(_unlock, connection)
            if (connection.execute(select(leader.c.epoch)).scalar_one_or_none() or 0) < self._epoch:
                # Epochs only grow: this is another database, or an older state of it, and does not know what runs.
                held.close()
                self.is_lost = True
                return False
            new = insert(leader).values(id=1, epoch=1, holder=self._holder, since=now)
            again = {"epoch": leader.c.epoch + 1, "holder": self._holder, "since": now}
            upsert = new.on_conflict_do_update(index_elements=[leader.c.id], set_=again).returning(leader.c.epoch)
            self._epoch, self.is_lost = connection.execute(upsert).scalar_one(), False
        except BaseException:
            held.close()
            raise
        self._held, self._connection = held, connection
        return True

    def resign(self) -> None:
        """Let somebody else lead. Again: no harm."""
        held, self._held, self._connection = self._held, None, None
        if held is not None:
            with suppress(Exception):  # the connection is gone, and the lock with it
                held.close()


def _unlock(connection: Connection) -> None:
    """Unlock at once: the server would free the lock when it finds the connection closed, some time after `close`."""
    connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": _LOCK})


def check_epoch(connection: Connection, epoch: int) -> None:
    """Raises DeposedError unless `epoch` still leads; nobody else can begin to before the transaction has ended."""
    found = connection.execute(select(leader.c.epoch).with_for_update(read=True)).scalar_one_or_none()
    if found != epoch:
        raise DeposedError(f"this process led in epoch {epoch}; now it is {found}: it leaves everything to the leader")
