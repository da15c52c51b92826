"""Holds an operation while it is worked on, and ends this process when it may no longer be worked on.

A solver cannot be interrupted from within, so its process is ended: when the operation was cancelled, when it takes too
long, when somebody tells the worker to end, and when the API process that started it is gone. In the last two cases the
operation is handed back first, for others to do.
"""

import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta

from control.db.errors import DatabaseError
from control.db.operations import PostgresOperations

_log = logging.getLogger(__name__)
LEASE = timedelta(seconds=20)
_LOOK_S = 1.0
_RENEW_S = 4.0
GIVEN_UP = 70
"""Exit code of a worker that may not go on."""


def block_end() -> None:
    """SIGTERM is waited for in a thread from now on: the main one may be in a solver for minutes. Call it first."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})


class Lease:
    """`progress` is for people."""

    def __init__(
        self,
        operations: PostgresOperations,
        operation_id: str,
        holder: str,
        limit_s: float,
        parent: int,
        now: Callable[[], datetime],
    ) -> None:
        self._operations = operations
        self._id = operation_id
        self._holder = holder
        self._until_s = time.monotonic() + limit_s
        self._renewed_s = time.monotonic()
        self._parent = parent
        self._now = now
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._hold, daemon=True)
        self.progress = ""

    def __enter__(self) -> "Lease":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _hold(self) -> None:
        while not self._over.is_set():
            if signal.sigtimedwait({signal.SIGTERM}, _LOOK_S) is not None:
                self._give_up("the worker was asked to end", hand_back=True)
            elif os.getppid() != self._parent:
                self._give_up("the API process is gone", hand_back=True)
            elif time.monotonic() > self._until_s:
                self._time_out()
            elif time.monotonic() - self._renewed_s >= _RENEW_S and not self._over.is_set():
                self._renew()

    def _renew(self) -> None:
        try:
            held = self._operations.renew(self._id, self._holder, LEASE, self.progress)
        except DatabaseError as error:
            # Until the lease has run out nobody else can have taken it.
            _log.warning("operation %s: %s", self._id, error)
            held = time.monotonic() - self._renewed_s < LEASE.total_seconds()
        else:
            self._renewed_s = time.monotonic()
        if not held and not self._over.is_set():
            self._give_up("it was cancelled, or its lease has run out", hand_back=False)

    def _time_out(self) -> None:
        problem = {"name": "took-too-long", "detail": "it was not done within the time that an operation may take"}
        try:
            self._operations.fail(self._id, self._holder, problem, self._now())
        except DatabaseError as error:
            _log.warning("operation %s: %s", self._id, error)
        self._give_up("it took too long", hand_back=False)

    def _give_up(self, why: str, *, hand_back: bool) -> None:
        _log.warning("operation %s is given up: %s", self._id, why)
        try:
            if hand_back:
                self._operations.hand_back(self._id, self._holder)
        except DatabaseError as error:
            _log.warning("operation %s: %s", self._id, error)
        os._exit(GIVEN_UP)
