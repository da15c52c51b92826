"""Which member of a unit holds which blocks of the pool, without sockets: each block has one owner, or none."""

from collections.abc import Iterable, Sequence

from agents.unit.grants import Grants


class BlockLedger:
    """Blocks 0 to `pool` - 1, taken within quotas (`Grants`)."""

    def __init__(self, grants: Grants) -> None:
        self._grants = grants
        self._free = list(range(grants.pool - 1, -1, -1))
        self._held: list[set[int]] = [set() for _ in grants.quotas]

    @property
    def members(self) -> int:
        return len(self._held)

    @property
    def free(self) -> int:
        return len(self._free)

    def held(self, member: int) -> frozenset[int]:
        return frozenset(self._held[member])

    def left(self, member: int) -> int:
        """Blocks that a member may take now."""
        return self._grants.left(member)

    def take(self, member: int, count: int) -> list[int]:
        """Raises ValueError, taking nothing, for more than are left to the member."""
        self._grants.take(member, count)
        cut = len(self._free) - count
        taken = self._free[cut:]
        del self._free[cut:]
        self._held[member].update(taken)
        return taken

    def give_back(self, member: int, blocks: Sequence[int]) -> None:
        """Raises ValueError, taking nothing back, for a block that the member does not hold, or that comes twice."""
        given = set(blocks)
        if len(given) != len(blocks) or not given <= self._held[member]:
            wrong = sorted(given - self._held[member])[:3]
            raise ValueError(f"member {member} gives back blocks that it does not hold, or twice: {wrong or blocks}")
        self._held[member] -= given
        self._grants.give(member, len(blocks))
        self._free.extend(blocks)

    def reclaim(self, members: Iterable[int]) -> int:
        """Take back all that members hold, once their processes are known to be dead; return how many blocks."""
        count = 0
        for member in members:
            lost = sorted(self._held[member])
            self.give_back(member, lost)
            count += len(lost)
        return count
