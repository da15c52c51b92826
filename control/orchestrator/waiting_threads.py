"""Threads that wait for answers from elsewhere. They keep no process from ending."""

import queue
import threading
from collections.abc import Callable


class WaitingThreads:
    """Threads may submit at the same time."""

    def __init__(self, most: int) -> None:
        """`most`: threads at the same time; what is submitted beyond them waits its turn."""
        self._most, self._started, self._idle = most, 0, 0
        self._lock = threading.Lock()
        self._work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

    def submit(self, work: Callable[[], None]) -> None:
        """`work` raises nothing."""
        self._work.put(work)
        with self._lock:
            if self._idle < self._work.qsize() and self._started < self._most:
                self._started += 1
                threading.Thread(target=self._run, name="model calls", daemon=True).start()

    def _run(self) -> None:
        while True:
            with self._lock:
                self._idle += 1
            work = self._work.get()
            with self._lock:
                self._idle -= 1
            work()
