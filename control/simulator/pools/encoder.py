"""An encoder of a pool: takes parts of pictures by their turn, in batches of at most so many image tokens."""

import heapq
from dataclasses import dataclass, field

from control.simulator.pools.pool_requests import PoolRequest
from control.simulator.pools.stage_times import EncodeTimes
from policies.pools.turns import interleaved


@dataclass(slots=True, eq=False)
class Encoder:
    id: str
    times: EncodeTimes
    batch_tokens: int
    """Image tokens of one batch; a larger part is a batch by itself. 1: none are joined."""
    is_busy: bool = False
    pending_tokens: int = 0
    """Of parts that wait or are computed."""
    received: int = 0
    """Parts that were ever sent here."""
    _queue: list[tuple[float, int, PoolRequest, int]] = field(default_factory=list)
    """(turn, order, request, image tokens), a heap."""

    def take(self, request: PoolRequest, tokens: int, now_s: float, behind_s: float = 0.0) -> None:
        """Have a part wait. `behind_s`: as of `media_spread.behind_s`; 0: it lets nobody pass."""
        self.received += 1
        self.pending_tokens += tokens
        heapq.heappush(self._queue, (interleaved(now_s, behind_s), self.received, request, tokens))

    def begin(self) -> tuple[list[tuple[PoolRequest, int]], float]:
        """(parts of the next batch, its seconds); no parts where none wait. Raises RuntimeError while it is busy."""
        if self.is_busy:
            raise RuntimeError(f"encoder {self.id} has a batch under way: end that first")
        batch: list[tuple[PoolRequest, int]] = []
        tokens = 0
        while self._queue and (not batch or tokens + self._queue[0][3] <= self.batch_tokens):
            _, _, request, own = heapq.heappop(self._queue)
            batch.append((request, own))
            tokens += own
        self.is_busy = bool(batch)
        return batch, self.times.seconds(tokens, len(batch)) if batch else 0.0

    def end(self, batch: list[tuple[PoolRequest, int]]) -> None:
        """The batch is computed."""
        self.is_busy = False
        self.pending_tokens -= sum(tokens for _, tokens in batch)
        for request, tokens in batch:
            request.encoders[self.id] = request.encoders.get(self.id, 0) + tokens
