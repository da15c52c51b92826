"""Threads that wait for answers from elsewhere. They keep no process from ending."""

import queue
import threading
from collections.abc import Callable


class WaitingThreads:
    """Threads may submit at the same time."""

    def __init__(self, most: int) -> None:
        """`most`: threads at the same time; what is submitted beyond them waits its turn."""
        self._most, self._started = most, 0
        self._free, self._late = 0, 0
        """Threads that nothing is meant for; work that no thread is meant for. One of them is 0."""
        self._lock = threading.Lock()
        self._work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

    def submit(self, work: Callable[[], None]) -> None:
        """`work` raises nothing."""
        with self._lock:
            self._work.put(work)
            if self._free:
                self._free -= 1
            elif self._started < self._most:
                self._started += 1
                threading.Thread(target=self._run, name="model calls", daemon=True).start()
            else:
                self._late += 1

    def _run(self) -> None:
        while True:
            self._work.get()()
            with self._lock:
                if self._late:
                    self._late -= 1
                else:
                    self._free += 1
