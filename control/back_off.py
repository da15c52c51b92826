"""Time to wait before what failed is tried again."""

from collections.abc import Hashable

_FIRST_S = 1.0
_MOST_S = 60.0


class BackOff:
    """Twice as long after every failure in a row, so that what cannot work is not tried all day."""

    def __init__(self) -> None:
        self._wait_s: dict[Hashable, float] = {}
        self._not_before_s: dict[Hashable, float] = {}

    def failed(self, what: Hashable, now_s: float) -> None:
        last_s = self._wait_s.get(what)
        self._wait_s[what] = _FIRST_S if last_s is None else min(_MOST_S, 2 * last_s)
        self._not_before_s[what] = now_s + self._wait_s[what]

    def worked(self, what: Hashable) -> None:
        self._wait_s.pop(what, None)
        self._not_before_s.pop(what, None)

    def wait_s(self, what: Hashable, now_s: float) -> float:
        """Seconds until it may be tried again."""
        return max(0.0, self._not_before_s.get(what, now_s) - now_s)
