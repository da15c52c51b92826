"""Calls that no instance can take now: tried again, oldest first, when one becomes usable or says that it has room."""

import asyncio
from collections.abc import Callable, Iterator

from control.gateway.api_error import unavailable
from control.gateway.call import Call

_RETRY_S = 0.1
"""A call is tried again so soon where instances are open, but have all failed it just now."""


class Parking:
    """Make it on a running loop."""

    def __init__(self, wait_s: float, dispatch: Callable[[Call], None], is_open: Callable[[str], bool]) -> None:
        """`wait_s`: how long a call may wait. `is_open`: whether a model's requests can be sent somewhere."""
        self._wait_s, self._dispatch, self._is_open = wait_s, dispatch, is_open
        self._loop = asyncio.get_running_loop()
        self._parked: dict[str, dict[Call, asyncio.TimerHandle]] = {}
        """Calls that wait, by model, who waits longest first."""
        self._until_s: dict[Call, float] = {}

    def __len__(self) -> int:
        return sum(map(len, self._parked.values()))

    def __iter__(self) -> Iterator[Call]:
        return iter([call for parked in self._parked.values() for call in parked])

    def park(self, call: Call) -> None:
        """Have it wait, or end it where it has waited for too long."""
        now_s = self._loop.time()
        until_s = self._until_s.setdefault(call, now_s + self._wait_s)
        if now_s >= until_s:
            del self._until_s[call]
            call.finish(unavailable(f"No instance of `{call.asked.model}` can take the request now"))
            return
        call.avoided.clear()
        again_s = min(until_s, now_s + _RETRY_S) if self._is_open(call.asked.model) else until_s
        parked = self._parked.setdefault(call.asked.model, {})
        parked[call] = self._loop.call_at(again_s, self._retry, call)

    def sent(self, call: Call) -> None:
        """It waits no more: the next time counts from its own begin."""
        self._until_s.pop(call, None)

    def forget(self, call: Call) -> None:
        self._unpark(call)
        self._until_s.pop(call, None)

    def wake(self) -> None:
        """Try calls of models that are open, each once."""
        for model in list(self._parked):
            parked = self._parked[model]
            for _ in range(len(parked)):
                if not self._is_open(model) or not parked:
                    break
                self._retry(next(iter(parked)))

    def _retry(self, call: Call) -> None:
        self._unpark(call)
        self._dispatch(call)

    def _unpark(self, call: Call) -> None:
        parked = self._parked.get(call.asked.model, {})
        handle = parked.pop(call, None)
        if handle is not None:
            handle.cancel()
            if not parked:
                del self._parked[call.asked.model]
