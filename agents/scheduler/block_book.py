"""The KV blocks of one node, counted: those of runs, and full ones whose content is known, kept for prompts that begin
with the same tokens.

Theory of operation: a block is private to its run until it is full. Then its digest makes it known, unless a block of
the same content is known already, and every run that begins alike may hold it too. A known block that no run holds any
more is idle: its content stays until somebody needs the room, which takes the one first that has been idle for longest.
Idle blocks count as free everywhere, so that whatever fits without the cache fits with it.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple


class BlockName(NamedTuple):
    """Name of a known block: of the run that computed it, which may be over."""

    run: int
    block: int
    """Its place in that run, from 0."""


@dataclass(slots=True)
class _Known:
    digest: bytes
    holders: int


class BlockBook:
    def __init__(self, blocks: int) -> None:
        self.blocks = blocks
        """That there are: those of runs, and free ones."""
        self._unused = blocks
        """Without content that anybody could want."""
        self._names: dict[bytes, BlockName] = {}
        self._known: dict[BlockName, _Known] = {}
        self._idle: OrderedDict[BlockName, None] = OrderedDict()
        """Known blocks that nobody holds; the one that was let go first is the first."""

    @property
    def free(self) -> int:
        return self._unused + len(self._idle)

    def resize(self, blocks: int) -> None:
        """Have more blocks, or fewer: of those that nobody uses as many go as there are, and the rest when this is
        asked again."""
        change = max(blocks - self.blocks, -self._unused)
        self.blocks += change
        self._unused += change

    def find(self, digests: Sequence[bytes]) -> int:
        """Count the first of these blocks that are all known here."""
        for count, digest in enumerate(digests):
            if digest not in self._names:
                return count
        return len(digests)

    def share(self, digests: Sequence[bytes]) -> list[BlockName]:
        """Hold the blocks of these digests, which are known, for one more run."""
        names = [self._names[digest] for digest in digests]
        for name in names:
            self._known[name].holders += 1
            self._idle.pop(name, None)
        return names

    def take(self, blocks: int) -> list[BlockName]:
        """Take private blocks; return the idle ones whose content is lost for it. Raises ValueError where fewer are
        free."""
        if blocks > self.free:
            raise ValueError(f"{blocks} KV blocks are to be taken of a node that has {self.free}")
        lost = [self._idle.popitem(last=False)[0] for _ in range(blocks - self._unused)]
        for name in lost:
            del self._names[self._known.pop(name).digest]
        self._unused += len(lost) - blocks
        return lost

    def publish(self, digest: bytes, name: BlockName) -> bool:
        """Make a private block of a run known, which goes on to hold it; False where its content is known already, and
        it stays private."""
        if digest in self._names:
            return False
        self._names[digest], self._known[name] = name, _Known(digest, 1)
        return True

    def give_back(self, private: int, known: Sequence[BlockName]) -> None:
        """A run is over that held so many private blocks, and these, in the order of its text."""
        self._unused += private
        for name in reversed(known):  # the end of a text is of use to fewer than its beginning, and goes first
            block = self._known[name]
            block.holders -= 1
            if not block.holders:
                self._idle[name] = None

    def freed_by(self, runs: Iterable[tuple[int, Sequence[BlockName]]]) -> int:
        """Count the blocks that would be free if these runs were over. Of each: private blocks, and known ones."""
        held: Counter[BlockName] = Counter()
        private = 0
        for own, known in runs:
            private += own
            held.update(known)
        return private + sum(self._known[name].holders == count for name, count in held.items())
