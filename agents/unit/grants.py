"""The blocks of a unit's KV cache: who holds how many, and how many each may."""

from collections.abc import Sequence


class Grants:
    """Blocks of one pool, held by members within their quotas. A quota that was lowered below what a member holds takes
    nothing away: the member gets no more until it holds less."""

    def __init__(self, pool: int, quotas: Sequence[int]) -> None:
        """Raises ValueError for quotas above the pool, or below 0."""
        self.pool = pool
        self._held = [0] * len(quotas)
        self._most = [0] * len(quotas)
        self._quotas: list[int] = []
        self._set(quotas)

    @property
    def quotas(self) -> tuple[int, ...]:
        return tuple(self._quotas)

    @property
    def held(self) -> tuple[int, ...]:
        return tuple(self._held)

    def left(self, member: int) -> int:
        """Blocks that a member may take now."""
        return max(0, min(self._quotas[member] - self._held[member], self.pool - sum(self._held)))

    def take(self, member: int, blocks: int) -> None:
        """Raises ValueError for more than are left to the member."""
        if not 0 <= blocks <= self.left(member):
            raise ValueError(f"member {member} cannot take {blocks} blocks: {self.left(member)} are left to it")
        self._held[member] += blocks
        self._most[member] = max(self._most[member], self._held[member])

    def give(self, member: int, blocks: int) -> None:
        """Raises ValueError for more than the member holds."""
        if not 0 <= blocks <= self._held[member]:
            raise ValueError(f"member {member} cannot give back {blocks} blocks: it holds {self._held[member]}")
        self._held[member] -= blocks

    def most_held(self) -> tuple[int, ...]:
        """The most blocks that each member held at once since this was asked last."""
        most, self._most = tuple(self._most), list(self._held)
        return most

    def change(self, quotas: Sequence[int]) -> None:
        """Give other quotas to the same members. Raises ValueError as `Grants` does."""
        if len(quotas) != len(self._held):
            raise ValueError(f"{len(quotas)} quotas are not of {len(self._held)} members")
        self._set(quotas)

    def _set(self, quotas: Sequence[int]) -> None:
        if any(not 0 <= quota <= self.pool for quota in quotas):
            raise ValueError(f"quotas are between 0 and the pool of {self.pool} blocks, not {list(quotas)}")
        self._quotas = list(quotas)
