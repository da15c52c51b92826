"""Blocks of a pool for members whose schedulers run by themselves, and learn of other quotas a moment later."""

from collections.abc import Sequence

from agents.unit.grants import Grants


class PromisedGrants(Grants):
    """A scheduler orders steps for as many blocks as it was promised, so a promise is never broken: a quota that was
    lowered counts for others once the scheduler has said that it counts on less, and its engine holds no more.

    For every member, what it is promised or holds, whichever is more, adds up to no more than the pool: whoever takes
    blocks that it was promised gets them."""

    def __init__(self, pool: int, quotas: Sequence[int]) -> None:
        """Raises ValueError as `Grants` does, and for quotas that add up to more than the pool."""
        super().__init__(pool, quotas)
        if sum(quotas) > pool:
            raise ValueError(f"quotas {list(quotas)} add up to more than the pool of {pool} blocks")
        self._promised = list(quotas)
        self._away: set[int] = set()
        """Members whose schedulers are gone."""

    @property
    def promised(self) -> tuple[int, ...]:
        return tuple(self._promised)

    def left(self, member: int) -> int:
        return max(0, min(self._promised[member] - self._held[member], self.pool - sum(self._held)))

    def renew(self, member: int, counted: int, *, is_short: bool) -> int:
        """Return how many blocks a member's scheduler may count on, which counts on `counted` now. `is_short`: some
        request waits for blocks, so that what is left of the quota is too little to be of use."""
        self._away.discard(member)
        if is_short:
            self._most[member] = max(self._most[member], self._quotas[member])
        # It was never promised more, whatever it says.
        self._promised[member] = min(self._promised[member], max(counted, 0))
        quota = self._quotas[member]
        if quota <= self._promised[member]:
            return quota  # kept for it until it counts on less
        self._promised[member] = max(self._promised[member], min(quota, self._unpromised(member)))
        return self._promised[member]

    def forget(self, member: int) -> None:
        """Nobody counts on a member's blocks any more: its scheduler is gone."""
        self._away.add(member)
        self._break_promises()

    def change(self, quotas: Sequence[int]) -> None:
        super().change(quotas)
        self._break_promises()

    def _break_promises(self) -> None:
        """Of those who are away."""
        for member in self._away:
            self._promised[member] = min(self._promised[member], self._quotas[member])

    def _unpromised(self, member: int) -> int:
        """Blocks that are neither promised to others nor held by them."""
        others = (max(p, h) for i, (p, h) in enumerate(zip(self._promised, self._held, strict=True)) if i != member)
        return self.pool - sum(others)
