"""Holds an operation while it is worked on, and ends this process when it may not be worked on any more."""

import logging
import os
import threading
import time
from datetime import UTC, datetime, timedelta

from control.db.errors import DatabaseError
from control.db.operations import PostgresOperations

_log = logging.getLogger(__name__)
LEASE = timedelta(seconds=20)
_RENEW_S = 4.0
GIVEN_UP = 70
"""Exit code of a worker that lost its operation."""


class Lease:
    """A solver cannot be interrupted from within: cancelling ends its process. `progress` is for people."""

    def __init__(
        self, operations: PostgresOperations, operation_id: str, holder: str, limit_s: float, parent: int
    ) -> None:
        self._operations = operations
        self._id = operation_id
        self._holder = holder
        self._until_s = time.monotonic() + limit_s
        self._held_until_s = time.monotonic() + LEASE.total_seconds()
        self._parent = parent
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._renew, daemon=True)
        self.progress = ""

    def __enter__(self) -> "Lease":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _renew(self) -> None:
        while not self._over.wait(_RENEW_S):
            if os.getppid() != self._parent:
                self._give_up("the API process is gone")
            if time.monotonic() > self._until_s:
                self._time_out()
            try:
                held = self._operations.renew(self._id, self._holder, LEASE, self.progress)
            except DatabaseError as error:
                # Until the lease has run out nobody else can have taken it.
                _log.warning("operation %s: %s", self._id, error)
                held = time.monotonic() < self._held_until_s
            else:
                self._held_until_s = time.monotonic() + LEASE.total_seconds()
            if not held:
                self._give_up("it was cancelled, or its lease has run out")

    def _time_out(self) -> None:
        problem = {"name": "took-too-long", "detail": "it was not done within the time that an operation may take"}
        try:
            self._operations.fail(self._id, self._holder, problem, datetime.now(UTC))
        except DatabaseError as error:
            _log.warning("operation %s: %s", self._id, error)
        self._give_up("it took too long")

    def _give_up(self, why: str) -> None:
        _log.warning("operation %s is given up: %s", self._id, why)
        os._exit(GIVEN_UP)
