"""What loading and computing take, measured where it is done: by it calls get their places, and services room."""

import threading
from bisect import bisect_left
from collections.abc import Mapping

from medley_sdk.flows.messages import ServiceInfo

UNMEASURED_LOAD_S, UNMEASURED_BATCH_S, UNMEASURED_PROCESS_S = 1.0, 0.1, 0.5
"""Until something is measured: only that all services are alike, and loads longer than batches, is meant by it."""
_NEW = 0.25
"""Weight of the latest time in a mean: a few batches later, one that was odd is forgotten."""


class MeasuredService:
    """Threads may use it at the same time."""

    def __init__(self, name: str, max_batch: int) -> None:
        self.name, self.max_batch = name, max_batch
        self.load_s = UNMEASURED_LOAD_S
        self.memory_mib = 0.0
        """What it added to its process when it was loaded last; 0 until then, and where memory has no bound."""
        self.is_too_large = False
        """It was loaded where nothing else was, and took more than a process may."""
        self._is_loaded = False
        self._lock = threading.Lock()
        self._means: dict[int, tuple[float, float]] = {}
        """Of batches whose sizes have as many binary digits: calls and seconds."""
        self._known: tuple[tuple[float, float], ...] = ()
        """The same, by their calls."""

    def loaded(self, took_s: float, took_mib: float = 0.0) -> None:
        with self._lock:
            self.load_s = _mean(self.load_s, took_s) if self._is_loaded else took_s
            self._is_loaded = True
            self.memory_mib = max(0.0, took_mib)

    def computed(self, calls: int, took_s: float) -> None:
        with self._lock:
            before = self._means.get(calls.bit_length())
            now = (float(calls), took_s)
            mean = now if before is None else (_mean(before[0], now[0]), _mean(before[1], now[1]))
            self._means[calls.bit_length()] = mean
            self._known = tuple(sorted(self._means.values()))

    def batch_s(self, calls: int) -> float:
        """Return the time of a batch: between sizes that were measured in a straight line, beyond them as the
        nearest."""
        known = self._known
        if not known:
            return UNMEASURED_BATCH_S
        above = bisect_left(known, (float(calls), 0.0))
        if above == 0 or above == len(known):
            return known[min(above, len(known) - 1)][1]
        (few, few_s), (many, many_s) = known[above - 1], known[above]
        return few_s + (many_s - few_s) * (calls - few) / (many - few)


class MeasuredTimes:
    """Of one app, by all of its workers. Threads may use it at the same time."""

    def __init__(self, services: Mapping[str, ServiceInfo]) -> None:
        self.services = {name: MeasuredService(name, info.max_batch) for name, info in services.items()}
        self.process_s = UNMEASURED_PROCESS_S
        """Until a process has the app's code."""
        self.process_mib = 0.0
        """What a process takes then; 0 until that is measured, and where memory has no bound."""


def _mean(before: float, now: float) -> float:
    return (1 - _NEW) * before + _NEW * now
