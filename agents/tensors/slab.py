"""Memory of a sidecar as extents: each is charged to an account, and comes back when nobody holds it any more."""

from bisect import insort
from collections import Counter
from dataclasses import dataclass

from agents.transfer.errors import BadPieceError

ALIGNMENT = 4096
"""Bytes: a page, so that an extent can be pinned or copied by a device."""


@dataclass(frozen=True, slots=True)
class Extent:
    """Neighbouring bytes; `size` is what was asked for, what lies behind it up to the next page is unused."""

    offset: int
    size: int


@dataclass(slots=True)
class _Held:
    extent: Extent
    holders: int
    account: str


class Slab:
    """Takes the first place that is large enough, from the beginning: what is in use stays together, in pages that
    processes have mapped already."""

    def __init__(self, size: int) -> None:
        """`size`: bytes, a multiple of `ALIGNMENT`. Raises ValueError."""
        if size <= 0 or size % ALIGNMENT:
            raise ValueError(f"a slab has a multiple of {ALIGNMENT} bytes, not {size}")
        self.size = size
        self._free: list[tuple[int, int]] = [(0, size)]
        """(offset, end) of gaps that do not touch, in order."""
        self._held: dict[int, _Held] = {}
        self._charged: Counter[str] = Counter()

    @property
    def free_bytes(self) -> int:
        return sum(end - offset for offset, end in self._free)

    def charged(self, account: str) -> int:
        """Bytes of an account, with what pages waste."""
        return self._charged[account]

    def allocate(self, size: int, part: int, account: str) -> tuple[Extent, ...] | None:
        """Takes `size` bytes, above 0, in extents of `part` bytes (a multiple of `ALIGNMENT`) that follow each other,
        the last one of what is left. The caller holds each. None where no gap is large enough."""
        wanted = padded(size)
        for number, (offset, end) in enumerate(self._free):
            if end - offset < wanted:
                continue
            self._free[number : number + 1] = [(offset + wanted, end)] if end - offset > wanted else []
            extents = tuple(Extent(offset + at, min(part, size - at)) for at in range(0, size, part))
            self._held |= {extent.offset: _Held(extent, 1, account) for extent in extents}
            self._charged[account] += wanted
            return extents
        return None

    def at(self, offset: int) -> Extent:
        """The extent that begins there. Raises BadPieceError."""
        return self._of(offset).extent

    def hold(self, extent: Extent) -> None:
        """Counts one more holder. Raises BadPieceError where nobody holds it."""
        self._of(extent.offset).holders += 1

    def is_held_once(self, extent: Extent) -> bool:
        return self._of(extent.offset).holders == 1

    def drop(self, extent: Extent) -> None:
        """Counts one holder less, and frees the extent behind the last. Raises BadPieceError where nobody holds it."""
        held = self._of(extent.offset)
        held.holders -= 1
        if not held.holders:
            del self._held[extent.offset]
            self._charge(held, -1)
            self._join(extent.offset, extent.offset + padded(extent.size))

    def charge(self, extent: Extent, account: str) -> None:
        """Moves it to another account. Raises BadPieceError where nobody holds it."""
        held = self._of(extent.offset)
        self._charge(held, -1)
        held.account = account
        self._charge(held, 1)

    def _of(self, offset: int) -> _Held:
        try:
            return self._held[offset]
        except KeyError:
            raise BadPieceError(f"nothing is held at {offset}") from None

    def _charge(self, held: _Held, sign: int) -> None:
        self._charged[held.account] += sign * padded(held.extent.size)
        if not self._charged[held.account]:
            del self._charged[held.account]  # accounts are as many as processes that ever came

    def _join(self, offset: int, end: int) -> None:
        """Gives a gap back, as one with those that it touches."""
        touching = [gap for gap in self._free if gap[1] == offset or gap[0] == end]
        for gap in touching:
            self._free.remove(gap)
        whole = [(offset, end), *touching]
        insort(self._free, (min(gap[0] for gap in whole), max(gap[1] for gap in whole)))


def padded(size: int) -> int:
    """Bytes of whole pages."""
    return -(-size // ALIGNMENT) * ALIGNMENT
