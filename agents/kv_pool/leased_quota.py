"""What the scheduler of a member may count on of a pool that models share: it moves with what all of them need."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agents.kv_pool.connection import PoolConnection, connected
from agents.kv_pool.messages import Needs, Quota, Watch, Watched

_ANSWER_S = 10.0
"""The owner answers at once, and does nothing else that takes time: silence is its end."""


class LeasedQuota:
    """All numbers are of whole blocks: one of the pool for each layer, KV head and side, which hold `block_tokens`
    tokens of the member's model together."""

    def __init__(self, connection: PoolConnection, watched: Watched) -> None:
        self._pool, self._units = connection, watched.units
        self.block_tokens = watched.block_tokens
        self.most = watched.most // watched.units
        """That the member could ever have, when others need their least."""
        self.first = watched.quota // watched.units
        """That it may have when it begins."""

    def renew(self, counted: int, wanted: int) -> int:
        """Say how many blocks the scheduler counts on, and how many its requests wait for; return how many it may count
        on from now on. Until it says that it counts on less, nobody else gets the difference. Raises PoolLostError."""
        return self._pool.ask(Needs(counted * self._units, wanted * self._units), Quota).blocks // self._units


@contextmanager
def leased_quota(path: Path, member: int) -> Iterator[LeasedQuota]:
    """Join the pool whose owner listens at `path` as the scheduler of this member. Raises PoolLostError where there is
    none, or the member has a scheduler already."""
    with connected(path, _ANSWER_S) as socket:
        connection = PoolConnection(socket)
        yield LeasedQuota(connection, connection.ask(Watch(member), Watched))
