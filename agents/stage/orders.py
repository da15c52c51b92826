"""What a stage worker was told and has not done yet."""

import threading
from queue import SimpleQueue

from agents.messages.to_stage import Connect, FreeRuns, ReserveRun, StageStep

Order = Connect | StageStep | FreeRuns | ReserveRun


class Orders:
    """From the loop to the engine's thread, in turn.

    Room for a KV cache that comes need not wait its turn, which is a step or two, where there is room beside all that
    was told before: the engine makes room during a step, too.
    """

    def __init__(self, block_tokens: int) -> None:
        """`block_tokens`: tokens in a KV block of the engine."""
        self._block_tokens = block_tokens
        self._orders: SimpleQueue[Order] = SimpleQueue()
        self._changing = threading.Lock()
        self._owed_blocks = 0
        """That orders may take which are not done yet."""
        self._reserves = 0
        """Of them; runs are reserved in rising order."""

    def put(self, order: Order) -> None:
        self._count(order, 1)
        self._orders.put(order)

    def get(self) -> Order:
        """Waits for the next one; say when it is `done`."""
        return self._orders.get()

    def done(self, order: Order) -> None:
        self._count(order, -1)

    def has_room(self, order: ReserveRun, free_blocks: int) -> bool:
        """Whether it may be done at once."""
        with self._changing:
            return not self._reserves and self._blocks(order) <= free_blocks - self._owed_blocks

    def _count(self, order: Order, sign: int) -> None:
        with self._changing:
            self._owed_blocks += sign * self._blocks(order)
            self._reserves += sign * isinstance(order, ReserveRun)

    def _blocks(self, order: Order) -> int:
        """At most: layers with a window take fewer."""
        if isinstance(order, ReserveRun):
            return self._reaching(order.tokens)
        if isinstance(order, StageStep):
            return sum(self._reaching(e.position + e.tokens) - self._reaching(e.position) for e in order.entries)
        return 0

    def _reaching(self, tokens: int) -> int:
        return -(-tokens // self._block_tokens)
