"""Chores that a process does now and then beside its own work, such as looking at prices."""

import logging
import threading
from collections.abc import Callable

from control.db.errors import DatabaseError

_log = logging.getLogger(__name__)


class Chore:
    """Repeated work in a thread that no process has to wait for: a cloud, or a receiver of alerts, may take its time to
    answer."""

    def __init__(self, name: str, work: Callable[[], object], every_s: float, first_s: float = 0.0) -> None:
        """`first_s`: before the first time. A time that fails is logged, and the next one comes."""
        self._name = name
        self._work = work
        self._every_s = every_s
        self._first_s = first_s
        self._ended = threading.Event()

    def begin(self) -> None:
        threading.Thread(target=self._run, name=self._name, daemon=True).start()

    def end(self) -> None:
        """Begin nothing any more; what is under way is not waited for."""
        self._ended.set()

    def _run(self) -> None:
        wait_s = self._first_s
        while not self._ended.wait(wait_s):
            wait_s = self._every_s
            try:
                self._work()
            except DatabaseError as error:
                if not self._ended.is_set():
                    _log.warning("%s: %s", self._name, error)
            except Exception:
                _log.exception("%s", self._name)
