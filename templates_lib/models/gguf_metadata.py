"""Metadata at the head of a GGUF file (format: ggml's docs/gguf.md, versions 2 and 3): a model's sizes, its vocabulary.

The gguf package's own reader makes several arrays of each of the vocabulary's entries, which takes 4 s for 50,000; this
one makes their values only, and checks every length against the file before it believes it.
"""

import mmap
import struct
from pathlib import Path
from typing import Any

MAGIC = b"GGUF"
MAX_ENTRIES = 1 << 20
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9
SENSELESS = (struct.error, KeyError, ValueError, OverflowError)
"""What a cursor raises where the head makes no sense."""


def read_metadata(path: Path) -> dict[str, Any]:
    """All of it, arrays as lists. Raises OSError, and ValueError where the file is no whole GGUF file."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            cursor = GgufCursor(mapped)
            _, entries = cursor.counts()
            return cursor.metadata(entries, MAX_ENTRIES)
    except SENSELESS as error:
        raise ValueError(f"it is no whole GGUF file ({error})") from error


class GgufCursor:
    """Reads from the start of a file that is mapped into memory; raises SENSELESS."""

    def __init__(self, mapped: mmap.mmap) -> None:
        self._mapped = mapped
        self._at = 0

    def counts(self) -> tuple[int, int]:
        """Of tensors and of metadata's entries; the first to be read."""
        if self._mapped[:4] != MAGIC:
            raise ValueError("it does not begin with GGUF")
        self._at = 4
        version = self.scalar("I")
        if version not in (2, 3):
            raise ValueError(f"it is GGUF version {version}; versions 2 and 3 are read")
        return self._count(), self._count()

    def metadata(self, entries: int, kept_array_entries: int) -> dict[str, Any]:
        """Scalars, strings and arrays; those of more than `kept_array_entries` are left out."""
        found = {}
        for _ in range(entries):
            key = self.string()
            value = self._value(self.scalar("I"), kept_array_entries)
            if value is not None:
                found[key] = value
        return found

    def scalar(self, code: str) -> Any:
        """`code`: of struct."""
        (value,) = self._array(1, code)
        return value

    def string(self) -> str:
        length = self.scalar("Q")
        self._need(length)
        self._at += length
        return self._mapped[self._at - length : self._at].decode()

    def _value(self, kind: int, kept_array_entries: int) -> Any:
        if kind == STRING:
            return self.string()
        if kind != ARRAY:
            return self.scalar(SCALARS[kind])
        inner, length = self.scalar("I"), self.scalar("Q")
        if length <= kept_array_entries:
            return [self.string() for _ in range(length)] if inner == STRING else self._array(length, SCALARS[inner])
        if inner == STRING:
            for _ in range(length):
                self._skip(self.scalar("Q"))
        else:
            self._skip(length * struct.calcsize(SCALARS[inner]))
        return None

    def _array(self, length: int, code: str) -> list[Any]:
        size = length * struct.calcsize(code)
        self._need(size)
        values = struct.unpack_from(f"<{length}{code}", self._mapped, self._at)
        self._at += size
        return list(values)

    def _count(self) -> int:
        count: int = self.scalar("Q")
        if count > MAX_ENTRIES:
            raise ValueError(f"{count} entries")
        return count

    def _skip(self, size: int) -> None:
        self._need(size)
        self._at += size

    def _need(self, size: int) -> None:
        if self._at + size > len(self._mapped):
            raise ValueError("it ends too early")
