"""The queue of the services of one app: which calls are computed together (DyOrc, section 5.1)."""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Computed:
    """What came of a call."""

    value: bytes = b""
    failure: str = ""
    """Empty: there is none."""
    is_begun: bool = False
    """The code of the service had it before it failed: nobody knows how far it came."""
    was_lost: bool = False
    """Its process died, which another one may not."""


@dataclass(frozen=True, slots=True)
class Queued:
    call: str
    """Id of the call."""
    service: str
    given: bytes
    done: Callable[[Computed], None]
    is_over: Callable[[], bool]
    """Tell whether its run is: it is not computed then, and `done` not called."""


class ServiceQueue:
    """First come, first served: the service of the call that waits longest has its turn, and takes along, in their
    order, as many of its calls as a batch may have, whichever runs these come from."""

    def __init__(self, most: Mapping[str, int]) -> None:
        """`most`: service → calls of a batch, at the most."""
        self._most, self._waiting = most, deque[Queued]()

    def add(self, call: Queued) -> None:
        self._waiting.append(call)

    def __len__(self) -> int:
        return len(self._waiting)

    def services(self) -> list[str]:
        """Return the service of each call that waits and is wanted, in their order."""
        return [call.service for call in self._waiting if not call.is_over()]

    def batch(self) -> list[Queued]:
        """Take the next batch; empty: nothing waits that is still wanted."""
        self._waiting = deque(call for call in self._waiting if not call.is_over())
        if not self._waiting:
            return []
        service = self._waiting[0].service
        taken: list[Queued] = []
        left = deque[Queued]()
        for call in self._waiting:
            if call.service == service and len(taken) < self._most[service]:
                taken.append(call)
            else:
                left.append(call)
        self._waiting = left
        return taken
