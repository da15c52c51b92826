"""Orders that a stage worker was given and has not done yet."""

import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue

from agents.messages.to_stage import Connect, DropKept, FreeRuns, ReserveRun, StageStep

Order = Connect | StageStep | FreeRuns | DropKept | ReserveRun


class Orders:
    """Queue of orders from the loop to the engine's thread, in turn.

    Room for a KV cache that comes need not wait its turn, which is a step or two, where there is room beside all that
    was told before: the engine makes room during a step, too.
    """

    def __init__(self, block_tokens: int, attended_rows: int = 0) -> None:
        """`block_tokens`: tokens in a KV block of the engine. `attended_rows`: of an encoder, whose keys and values
        every run has in blocks beside those of its tokens."""
        self._block_tokens = block_tokens
        self._attended_rows = attended_rows
        self._orders: SimpleQueue[Order] = SimpleQueue()
        self._changing = threading.Lock()
        self._undone: deque[Order] = deque()

    def put(self, order: Order) -> None:
        with self._changing:
            self._undone.append(order)
        self._orders.put(order)

    def get(self) -> Order:
        """Waits for the next one; say when it is `done`, before the one after it."""
        return self._orders.get()

    def done(self) -> None:
        with self._changing:
            self._undone.popleft()

    def has_room(self, order: ReserveRun, free_blocks: Callable[[], int]) -> bool:
        """Tell whether it may be done at once. Runs are reserved in rising order."""
        with self._changing:
            before = tuple(self._undone)
        if any(isinstance(other, ReserveRun) for other in before):
            return False
        needed = self._blocks(order) + sum(map(self._blocks, before))
        return needed <= free_blocks()  # last: an order that is done since then has taken its blocks

    def _blocks(self, order: Order) -> int:
        """Return the most blocks that an order takes: layers with a window take fewer."""
        attended = self._reaching(self._attended_rows)
        if isinstance(order, ReserveRun):
            return self._reaching(order.tokens) + attended
        if isinstance(order, StageStep):
            tokens = sum(self._reaching(e.position + e.tokens) - self._reaching(e.position) for e in order.entries)
            return tokens + attended * sum(e.position == 0 for e in order.entries)
        return 0

    def _reaching(self, tokens: int) -> int:
        return -(-tokens // self._block_tokens)
