"""Tensors that are kept by what they were made from, until their room is wanted: an image seen before is not encoded
again."""

from dataclasses import dataclass

from agents.messages.tensor_spec import TensorSpec
from agents.tensors.slab import Extent, Slab, padded

ACCOUNT = "kept"


@dataclass(frozen=True, slots=True)
class Rows:
    spec: TensorSpec
    part: int
    """Bytes of each chunk but the last, where it is no stream."""
    chunks: tuple[Extent, ...]


class KeptRows:
    """Holds each of its chunks once, and gives the least recently used up first."""

    def __init__(self, slab: Slab, bound_bytes: int) -> None:
        self._slab = slab
        self._bound_bytes = bound_bytes
        self._rows: dict[str, Rows] = {}
        """By key, the least recently used first."""

    def add(self, key: str, rows: Rows) -> bool:
        """Takes over the caller's hold of each chunk, and charges it here. False, and nothing is taken over, where the
        key has its rows already, or what is in use leaves no room within the bound."""
        size = sum(padded(extent.size) for extent in rows.chunks)
        if not rows.chunks or key in self._rows or size > self._bound_bytes:
            return False
        while self._slab.charged(ACCOUNT) + size > self._bound_bytes:
            if not self.give_up_one():
                return False
        for extent in rows.chunks:
            self._slab.charge(extent, ACCOUNT)
        self._rows[key] = rows
        return True

    def find(self, key: str) -> Rows | None:
        """Rows of that key, which become the most recently used."""
        if (rows := self._rows.pop(key, None)) is not None:
            self._rows[key] = rows
        return rows

    def give_up_one(self) -> bool:
        """Frees the least recently used of those that nobody uses; False where there is none."""
        for key, rows in self._rows.items():
            if all(self._slab.is_held_once(extent) for extent in rows.chunks):
                del self._rows[key]
                for extent in rows.chunks:
                    self._slab.drop(extent)
                return True
        return False
