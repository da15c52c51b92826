"""A pool as an engine sees it that has a part of it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol


class LentBlocks(Protocol):
    """Blocks of a pool, by number. Thread-safe."""

    @property
    def free(self) -> int:
        """Count those that may be taken now."""
        ...

    def take(self, count: int) -> list[int]:
        """Raises OutOfKvBlocksError, taking nothing, when there are not as many."""
        ...

    def share(self, units: Iterable[int]) -> None:
        """Raises NotImplementedError: blocks of a pool have one holder each."""
        ...

    def give_back(self, units: Iterable[int]) -> None: ...


@dataclass(frozen=True, slots=True, eq=False)
class LentPool:
    memory: memoryview
    """Of all blocks, of which this engine touches those that it has taken."""
    block_bytes: int
    blocks: LentBlocks
