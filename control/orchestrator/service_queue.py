"""The queue of the services of one app: which calls are computed together (DyOrc, section 5.1)."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
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


Numbered = tuple[int, Queued]
"""A call, behind the number by which it came."""


class ServiceQueue:
    """First come, first served: the service of the call that waits longest has its turn, and takes along, in their
    order, as many of its calls as a batch may have, whichever runs these come from. Where it has to wait for memory,
    only calls that waited already when its turn came are computed before it."""

    def __init__(self, most: Mapping[str, int]) -> None:
        """`most`: service → calls of a batch, at the most."""
        self._most = most
        self._waiting = deque[Numbered]()
        """With the number of each, by which they came."""
        self._came = 0
        self._turn = (-1, 0)
        """Number of the call whose turn it is, and of the first that came after it was."""

    def add(self, call: Queued) -> None:
        self._waiting.append((self._came, call))
        self._came += 1

    def __len__(self) -> int:
        return len(self._waiting)

    def services(self) -> list[str]:
        """Return the service of each call that waits and is wanted, in their order."""
        return [call.service for _, call in self._waiting if not call.is_over()]

    def first(self) -> str | None:
        """Return the service of the call that waits longest, whose turn it is; None: nothing waits that is still
        wanted."""
        self._waiting = deque(each for each in self._waiting if not each[1].is_over())
        if not self._waiting:
            return None
        number, call = self._waiting[0]
        if number != self._turn[0]:
            self._turn = number, self._came
        return call.service

    def overtaking(self) -> list[str]:
        """Return the service of each call that may be computed before the one whose turn it is, in their order."""
        number, until = self._turn
        return [call.service for came, call in self._waiting if number < came < until and not call.is_over()]

    def batch(self, service: str) -> list[Numbered]:
        """Take the next batch of a service, each call with its number."""
        taken: list[Numbered] = []
        left = deque[Numbered]()
        for each in self._waiting:
            if each[1].service == service and len(taken) < self._most[service]:
                taken.append(each)
            else:
                left.append(each)
        self._waiting = left
        return taken

    def put_back(self, batch: Sequence[Numbered]) -> None:
        """Have calls of a batch wait again, where they were."""
        self._waiting = deque(sorted((*batch, *self._waiting), key=lambda each: each[0]))
