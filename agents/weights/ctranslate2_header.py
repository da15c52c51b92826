"""The head of a CTranslate2 model file: where each tensor lies."""

import math
import mmap
import struct
from dataclasses import dataclass
from pathlib import Path

import torch

from agents.weights.errors import CorruptWeightsError, WeightsError

VERSION = 6
DTYPES = {0: torch.float32, 1: torch.int8, 2: torch.int16, 3: torch.int32, 4: torch.float16, 5: torch.bfloat16}
"""CTranslate2's numbers of data types (`include/ctranslate2/types.h`)."""
_MOST_TENSORS = 1 << 20


@dataclass(frozen=True, slots=True)
class StoredArray:
    shape: tuple[int, ...]
    dtype: torch.dtype
    offset: int
    """Bytes from the start of the file."""
    size: int
    """Bytes."""


@dataclass(frozen=True, slots=True)
class Ctranslate2Header:
    spec: str
    """What kind of model it is: `WhisperSpec`."""
    arrays: dict[str, StoredArray]


def read_header(path: Path, mapped: mmap.mmap) -> Ctranslate2Header:
    """Raises CorruptWeightsError where the head makes no sense or a tensor ends past the file, WeightsError for a
    version of the format that is not known."""
    cursor = _Cursor(mapped)
    try:
        version = cursor.number("I")
        if version != VERSION:
            raise WeightsError(f"{path} has version {version} of CTranslate2's format, version {VERSION} is read")
        spec, _revision, count = cursor.text(), cursor.number("I"), cursor.number("I")
        if count > _MOST_TENSORS:
            raise ValueError(f"has {count} tensors")
        arrays = dict(cursor.array() for _ in range(count))
    except (struct.error, UnicodeDecodeError, ValueError, KeyError) as error:
        raise CorruptWeightsError(path, f"is no whole CTranslate2 model ({error})") from error
    return Ctranslate2Header(spec, arrays)


class _Cursor:
    """Reads little-endian numbers, texts and arrays one after another."""

    def __init__(self, mapped: mmap.mmap) -> None:
        self._mapped = mapped
        self._at = 0

    def number(self, kind: str) -> int:
        (value,) = struct.unpack_from(f"<{kind}", self._mapped, self._at)
        self._at += struct.calcsize(kind)
        return int(value)

    def text(self) -> str:
        """The length counts a zero byte at the end."""
        length = self.number("H")
        raw = self._mapped[self._at : self._at + length]
        if len(raw) < length or not length:
            raise ValueError("a name ends past the file")
        self._at += length
        return raw[:-1].decode()

    def array(self) -> tuple[str, StoredArray]:
        name, rank = self.text(), self.number("B")
        shape = tuple(self.number("I") for _ in range(rank))
        dtype, size = DTYPES[self.number("B")], self.number("I")
        found = StoredArray(shape, dtype, self._at, size)
        self._at += size
        if size != math.prod(shape) * dtype.itemsize or self._at > len(self._mapped):
            raise ValueError(f"tensor {name!r} of shape {shape} has {size} bytes, or ends past the file")
        return name, found
