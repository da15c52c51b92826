"""When an executor that has died may be started again in its place."""

from collections import deque

MOST = 4
"""Restarts within a window: what dies more often takes its instance with it."""
_WINDOW_S = 300.0
_FIRST_S, _FACTOR = 0.5, 2.0
"""Pause before the first restart, and how many times longer each further one waits."""


class Restarts:
    """Deaths of one executor on one node. Times are monotonic seconds of the caller's."""

    def __init__(self) -> None:
        self._died_s: deque[float] = deque()
        self.due_s = 0.0
        """From when on it may run (again)."""

    def died(self, now_s: float) -> bool:
        """Note a death; whether the executor may be started again, from `due_s` on."""
        while self._died_s and now_s - self._died_s[0] > _WINDOW_S:
            self._died_s.popleft()
        self._died_s.append(now_s)
        self.due_s = now_s + _FIRST_S * _FACTOR ** (len(self._died_s) - 1)
        return len(self._died_s) <= MOST
