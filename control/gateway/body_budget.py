"""Memory for what clients send: bodies while they arrive, and their texts until they are tokens."""

from collections import Counter

from control.gateway.api_error import ApiError, unavailable
from control.gateway.counts import Counted, Counts
from policies.fair_order import Account

_AGAIN_S = 1.0


class BodyBudget:
    """Bytes of all clients of the gateway together. Each account may hold as much as is free, so that one that sends
    more than it should leaves room for others."""

    def __init__(self, most_bytes: int, counts: Counts) -> None:
        self._most = most_bytes
        self._counts = counts
        self._held: Counter[Account] = Counter()
        """By this process."""

    def hold(self, account: Account) -> "BodyHold":
        """Hold nothing yet, for one request."""
        return BodyHold(self, account)

    def take(self, account: Account, count: int) -> None:
        """Raises ApiError 503."""
        free = self._most - self._counts.total(Counted.BODY_BYTES)
        if self._held[account] + self._counts.others_hold(account) + count > free - count:
            raise _full()
        self._counts.add_body(account, count)
        self._held[account] += count

    def give_back(self, account: Account, count: int) -> None:
        self._counts.add_body(account, -count)
        self._held[account] -= count
        if self._held[account] <= 0:
            del self._held[account]


class BodyHold:
    """What one request holds, until `release`."""

    def __init__(self, budget: BodyBudget, account: Account) -> None:
        self._budget = budget
        self._account = account
        self._count = 0

    def add(self, count: int) -> None:
        """Raises ApiError 503, which closes the connection: what is left of the body is not read."""
        self._budget.take(self._account, count)
        self._count += count

    def release(self) -> None:
        """A second call changes nothing."""
        if self._count:
            self._budget.give_back(self._account, self._count)
        self._count = 0


def _full() -> ApiError:
    error = unavailable("The gateway takes in as much as it has memory for. Send the request again", _AGAIN_S)
    error.headers += ((b"connection", b"close"),)
    return error
