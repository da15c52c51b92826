"""Money that a fleet may still spend, asked before each node on the rows as they are then.

Moves are decided within the same limits, but minutes before their nodes are rented, at the prices of then.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from control.cloud.errors import RetryLaterError
from control.db.nodes import PostgresNodes
from control.diff.limits import ChangeLimits
from control.diff.spending import Spending, refusal

_HOUR = timedelta(hours=1)
_AGAIN_S = 60.0


class SpendingCheck:
    """Spending check of one fleet. Thread-safe: two nodes that are asked for at once do not both take what is left."""

    def __init__(self, nodes: PostgresNodes, fleet: str, clock: Callable[[], datetime], limits: ChangeLimits) -> None:
        self.limits = limits
        self._nodes, self._fleet, self._clock = nodes, fleet, clock
        self._turn = threading.Lock()
        self._begun: dict[tuple[str, int], float] = {}
        """(instance, place) → $/h of nodes that are being asked for, whether their rows are there yet or not."""

    @contextmanager
    def of_node(self, instance_id: str, place: int, usd_per_hour: float) -> Iterator[None]:
        """Reserve the node's price while it is rented. Raises RetryLaterError where it would break a limit: its
        instance waits, and is given up when its gang takes too long."""
        key = instance_id, place
        with self._turn:
            self._check(key, usd_per_hour)
            self._begun[key] = usd_per_hour
        try:
            yield
        finally:
            with self._turn:
                del self._begun[key]

    def _check(self, key: tuple[str, int], usd_per_hour: float) -> None:
        if self.limits.max_usd_per_hour is None and self.limits.max_new_nodes_per_hour is None:
            return
        held = self._nodes.rents(self._fleet)
        if key in held:
            return  # its intent is on record: asked again, it is no second node
        begun = {other: usd for other, usd in self._begun.items() if other not in held}
        new = len(self._nodes.rented_since(self._fleet, self._clock() - _HOUR)) + len(begun)
        found = refusal(self.limits, Spending(sum(held.values()) + sum(begun.values()), new), usd_per_hour, 1)
        if found is not None:
            raise RetryLaterError(f"not rented: {found.reason}", _AGAIN_S)
