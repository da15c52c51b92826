"""Free and taken units of the KV cache."""

from collections import Counter
from collections.abc import Iterable
from typing import Protocol

from agents.engines.errors import OutOfKvBlocksError


class Blocks(Protocol):
    """Units of a KV cache, by number: of a cache of one's own, or of one that several engines share."""

    @property
    def free(self) -> int:
        """Count those that may be taken now."""
        ...

    def take(self, count: int) -> list[int]:
        """Raises OutOfKvBlocksError, taking nothing, when there are not as many."""
        ...

    def share(self, units: Iterable[int]) -> None:
        """Count one more holder of taken units: each has to give them back."""
        ...

    def give_back(self, units: Iterable[int]) -> None:
        """One holder of these units needs them no longer; they are free once none does."""
        ...


class BlockPool:
    """Hands out unit numbers 0 … units - 1. A unit is `block_tokens` tokens of one layer."""

    def __init__(self, units: int) -> None:
        self.units = units
        self._free = list(range(units - 1, -1, -1))
        self._shared: Counter[int] = Counter()
        """Holders of a taken unit beside the first."""

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

    def share(self, units: Iterable[int]) -> None:
        """Count one more holder of taken units: each has to give them back."""
        self._shared.update(units)

    def give_back(self, units: Iterable[int]) -> None:
        """One holder of these units needs them no longer; they are free once none does."""
        if not self._shared:
            self._free.extend(units)
            return
        for unit in units:
            if unit not in self._shared:
                self._free.append(unit)
            elif self._shared[unit] > 1:
                self._shared[unit] -= 1
            else:
                del self._shared[unit]
