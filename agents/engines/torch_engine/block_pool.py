"""Free and taken units of the KV cache."""

from collections.abc import Iterable

from agents.engines.errors import OutOfKvBlocksError


class BlockPool:
    """Hands out unit numbers 0 … units - 1. A unit is `block_tokens` tokens of one layer."""

    def __init__(self, units: int) -> None:
        self.units = units
        self._free = list(range(units - 1, -1, -1))

    @property
    def free(self) -> int:
        return len(self._free)

    def take(self, count: int) -> list[int]:
        """Raises OutOfKvBlocksError, taking nothing, when there are not as many."""
        if count > len(self._free):
            raise OutOfKvBlocksError(count, len(self._free))
        cut = len(self._free) - count
        taken = self._free[cut:]
        del self._free[cut:]
        return taken

    def give_back(self, units: Iterable[int]) -> None:
        self._free.extend(units)
