"""The head of a GGUF file: metadata and where each tensor lies (format: ggml's docs/gguf.md, versions 2 and 3).

The gguf package's own reader builds a Python object for each of the vocabulary's entries (2.6 s for 50,000); this one
steps over long arrays, and checks every length against the file before it believes it.
"""

import math
import mmap
import struct
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

from agents.weights.errors import CorruptWeightsError

MAGIC = b"GGUF"
KEPT_ARRAY_ENTRIES = 4096
MAX_ENTRIES = 1 << 20
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9


@dataclass(frozen=True, slots=True)
class StoredTensor:
    kind: GGMLQuantizationType
    shape: tuple[int, ...]
    """Rows first, as torch has it (the file lists them the other way round)."""
    offset: int
    """Bytes from the start of the file."""
    size: int
    """Bytes."""


@dataclass(frozen=True, slots=True)
class GgufHeader:
    metadata: dict[str, Any]
    """Scalars, strings and arrays of up to KEPT_ARRAY_ENTRIES; longer arrays (the vocabulary) are left out."""
    tensors: dict[str, StoredTensor]


def read_header(path: Path, mapped: mmap.mmap) -> GgufHeader:
    """Raises CorruptWeightsError, naming the file, where the head makes no sense or a tensor ends past the file."""
    try:
        return _Cursor(path, mapped).header()
    except (struct.error, UnicodeDecodeError, KeyError, ValueError, OverflowError) as error:
        raise CorruptWeightsError(path, f"is no whole GGUF file ({error})") from error


class _Cursor:
    def __init__(self, path: Path, mapped: mmap.mmap) -> None:
        self._path = path
        self._mapped = mapped
        self._at = 0

    def header(self) -> GgufHeader:
        if self._mapped[:4] != MAGIC:
            raise CorruptWeightsError(self._path, "does not begin with GGUF")
        self._at = 4
        version = self._scalar("I")
        if version not in (2, 3):
            raise CorruptWeightsError(self._path, f"is GGUF version {version}; versions 2 and 3 are read")
        tensors, entries = self._count(), self._count()
        metadata = {}
        for _ in range(entries):
            key = self._string()
            value = self._value(self._scalar("I"))
            if value is not None:
                metadata[key] = value
        described = [self._tensor() for _ in range(tensors)]
        alignment = metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or alignment < 1:
            raise ValueError(f"general.alignment is {alignment!r}")
        start = -(-self._at // alignment) * alignment
        return GgufHeader(metadata, {name: self._placed(name, tensor, start) for name, tensor in described})

    def _tensor(self) -> tuple[str, StoredTensor]:
        """Offset still from the start of the tensor data."""
        name = self._string()
        dimensions = self._scalar("I")
        if not 1 <= dimensions <= 4:
            raise ValueError(f"tensor {name!r} has {dimensions} dimensions")
        shape = tuple(self._scalar("Q") for _ in range(dimensions))[::-1]
        kind = GGMLQuantizationType(self._scalar("I"))
        block, block_bytes = GGML_QUANT_SIZES[kind]
        if shape[-1] % block:
            raise ValueError(f"tensor {name!r} has rows of {shape[-1]}, no multiple of {block}")
        return name, StoredTensor(kind, shape, self._scalar("Q"), math.prod(shape) // block * block_bytes)

    def _placed(self, name: str, tensor: StoredTensor, start: int) -> StoredTensor:
        if start + tensor.offset + tensor.size > len(self._mapped):
            raise ValueError(f"tensor {name!r} ends past the file's {len(self._mapped)} bytes")
        return replace(tensor, offset=start + tensor.offset)

    def _value(self, kind: int) -> Any:
        if kind == STRING:
            return self._string()
        if kind != ARRAY:
            return self._scalar(SCALARS[kind])
        inner, length = self._scalar("I"), self._scalar("Q")
        if inner == STRING:
            if length <= KEPT_ARRAY_ENTRIES:
                return [self._string() for _ in range(length)]
            for _ in range(length):
                self._skip_string()
            return None
        width = struct.calcsize(SCALARS[inner])
        self._need(length * width)
        if length > KEPT_ARRAY_ENTRIES:
            self._at += length * width
            return None
        return [self._scalar(SCALARS[inner]) for _ in range(length)]

    def _scalar(self, code: str) -> Any:
        (value,) = struct.unpack_from("<" + code, self._mapped, self._at)
        self._at += struct.calcsize(code)
        return value

    def _count(self) -> int:
        count: int = self._scalar("Q")
        if count > MAX_ENTRIES:
            raise ValueError(f"{count} entries")
        return count

    def _string(self) -> str:
        start = self._at + 8
        self._skip_string()
        return self._mapped[start : self._at].decode()

    def _skip_string(self) -> None:
        length = self._scalar("Q")
        self._need(length)
        self._at += length

    def _need(self, size: int) -> None:
        if self._at + size > len(self._mapped):
            raise ValueError("it ends too early")
