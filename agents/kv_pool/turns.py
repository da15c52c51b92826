"""Turns of a unit's members at the processors that they share, as an engine takes them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agents.kv_pool.connection import PoolConnection, connected
from agents.kv_pool.messages import Go, Over, Ready, TakeTurns


class Turns:
    def __init__(self, connection: PoolConnection) -> None:
        self._owner = connection

    @contextmanager
    def turn(self, *, prompts: bool) -> Iterator[None]:
        """Wait until a job may begin, which is over with the context. `prompts`: some prompt is computed in it. Raises
        PoolLostError."""
        self._owner.ask(Ready(prompts), Go)
        yield  # an engine that fails in it ends its process, and with that its turn
        self._owner.tell(Over())


@contextmanager
def turns_of(path: Path, member: int) -> Iterator[Turns]:
    """Take the turns of a member whose unit's owner listens at `path`. Raises PoolLostError where nobody does."""
    with connected(path) as socket:
        connection = PoolConnection(socket)
        connection.tell(TakeTurns(member))
        yield Turns(connection)
