"""A pool of another process, as an engine takes blocks of it."""

import mmap
import os
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from agents.engines.errors import OutOfKvBlocksError
from agents.kv_pool.connection import PoolConnection, PoolLostError, connected
from agents.kv_pool.lent_pool import LentPool
from agents.kv_pool.messages import BLOCKS_A_PACKET, PACKET_BYTES, Give, Join, Joined, Left, Take, Taken, encode


class LeasedBlocks:
    """Blocks of a pool that its owner lends to this process. Thread-safe."""

    def __init__(self, connection: socket.socket) -> None:
        self._owner = PoolConnection(connection)

    @property
    def free(self) -> int:
        return self._owner.ask(Left(), Taken).left

    def take(self, count: int) -> list[int]:
        """Raises OutOfKvBlocksError, taking nothing, when there are not as many; PoolLostError."""
        taken: list[int] = []
        while len(taken) < count:
            wanted = min(count - len(taken), BLOCKS_A_PACKET)
            answer = self._owner.ask(Take(wanted), Taken)
            if len(answer.blocks) < wanted:
                self.give_back(taken)
                raise OutOfKvBlocksError(count, answer.left + len(taken))
            taken += answer.blocks
        return taken

    def share(self, units: Iterable[int]) -> None:
        raise NotImplementedError("blocks of a pool that models share have one holder each")

    def give_back(self, units: Iterable[int]) -> None:
        blocks = list(units)
        for start in range(0, len(blocks), BLOCKS_A_PACKET):
            self._owner.tell(Give(blocks[start : start + BLOCKS_A_PACKET]))


@contextmanager
def lent_pool(path: Path, member: int) -> Iterator[LentPool]:
    """Join the pool whose owner listens at `path` as a process of this member. Raises PoolLostError where nobody does,
    or the member has a process already."""
    with connected(path) as connection:
        try:
            connection.send(encode(Join(member)))
            packet, (memory, *_), _, _ = socket.recv_fds(connection, PACKET_BYTES, 1)
        except (OSError, ValueError) as error:
            raise PoolLostError(f"{path}: member {member} gets no KV cache there: {error}") from error
        try:
            joined = msgspec.msgpack.decode(packet, type=Joined)
            mapped = mmap.mmap(memory, joined.blocks * joined.block_bytes)
        finally:
            os.close(memory)
        # Not closed: engines have views of it for as long as they live.
        yield LentPool(memoryview(mapped), joined.block_bytes, LeasedBlocks(connection))
