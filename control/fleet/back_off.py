"""How long to wait before an instance that failed is launched again."""

from collections import defaultdict
from collections.abc import Hashable

_FIRST_S = 1.0
_MOST_S = 60.0


class BackOff:
    """Twice as long after every failure in a row, so that what cannot work does not rent nodes all day."""

    def __init__(self) -> None:
        self._failures: defaultdict[Hashable, int] = defaultdict(int)
        self._not_before_s: dict[Hashable, float] = {}

    def failed(self, what: Hashable, now_s: float) -> None:
        wait_s = min(_MOST_S, _FIRST_S * 2 ** self._failures[what])
        self._failures[what] += 1
        self._not_before_s[what] = now_s + wait_s

    def worked(self, what: Hashable) -> None:
        self._failures.pop(what, None)
        self._not_before_s.pop(what, None)

    def may(self, what: Hashable, now_s: float) -> bool:
        return now_s >= self._not_before_s.get(what, now_s)
