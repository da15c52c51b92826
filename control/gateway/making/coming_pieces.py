"""Pieces of answers that are there before their clients have taken those before: bounded for all answers together."""

import asyncio

from agents.messages.component_work import Made
from agents.messages.to_gateway import Failed
from control.gateway.counts import Counted, Counts


class PieceBudget:
    """Bytes of all answers of the gateway together. Each may hold as much as is free, so that one whose client reads
    nothing leaves room for others."""

    def __init__(self, most_bytes: int, counts: Counts) -> None:
        self._most = most_bytes
        self._counts = counts

    def has_room(self, held: int, more: int) -> bool:
        return held + more <= self._most - self._counts.total(Counted.PIECE_BYTES) - more

    def take(self, count: int) -> None:
        self._counts.add(Counted.PIECE_BYTES, count)


class ComingPieces:
    """What an attempt at an answer has sent, until it is taken. Close it."""

    def __init__(self, budget: PieceBudget) -> None:
        self.is_over = False
        """It held more than there is room for: whatever comes now is dropped."""
        self._budget = budget
        self._queue: asyncio.Queue[Made | Failed | None] = asyncio.Queue()
        self._held = 0

    def put(self, message: Made | Failed) -> None:
        if self.is_over:
            return
        size = len(message.data) if isinstance(message, Made) else 0
        self.is_over = size > 0 and not self._budget.has_room(self._held, size)
        if self.is_over:
            self._queue.put_nowait(None)
        else:
            self._hold(size)
            self._queue.put_nowait(message)

    async def take(self) -> Made | Failed | None:
        """Wait for the next one. None: it is over, and all that was held is taken."""
        message = await self._queue.get()
        if isinstance(message, Made):
            self._hold(-len(message.data))
        return message

    def close(self) -> None:
        """Give back what is held. A second call changes nothing."""
        self._hold(-self._held)

    def _hold(self, more: int) -> None:
        self._held += more
        self._budget.take(more)
