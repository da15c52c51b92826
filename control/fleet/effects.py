"""Calls to clouds, made beside the loop: one at a time for each name."""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Protocol

_log = logging.getLogger(__name__)

_AT_ONCE = 16


class Effects(Protocol):
    """Interface through which a loop hands over work that takes long."""

    def begin(self, name: str, work: Callable[[], None]) -> bool:
        """Begin `work`, unless work of that name is under way, and tell whether it was begun. What it raises is
        logged."""
        ...

    def wait(self, timeout_s: float) -> None:
        """Wait until nothing is under way, or time is up."""
        ...

    def close(self) -> None:
        """Begin nothing any more, and wait for what is under way."""
        ...


class ThreadEffects:
    """Effects in threads. Thread-safe."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_AT_ONCE, "effect")
        self._turn = threading.Lock()
        self._busy: dict[str, Future[None]] = {}

    def begin(self, name: str, work: Callable[[], None]) -> bool:
        with self._turn:
            if name in self._busy:
                return False
            self._busy[name] = self._pool.submit(self._done, name, work)
        return True

    def wait(self, timeout_s: float) -> None:
        with self._turn:
            busy = list(self._busy.values())
        wait(busy, timeout_s)

    def close(self) -> None:
        self._pool.shutdown()

    def _done(self, name: str, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            _log.error("%s: %s: %s", name, type(error).__name__, error)
        finally:
            with self._turn:
                self._busy.pop(name, None)


class InlineEffects:
    """Effects at once: for worlds whose clouds answer at once, such as simulated ones."""

    def begin(self, name: str, work: Callable[[], None]) -> bool:  # noqa: ARG002
        work()
        return True

    def wait(self, timeout_s: float) -> None: ...

    def close(self) -> None: ...
