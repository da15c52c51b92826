"""The head of a GGUF file: metadata, without the vocabulary, and where each tensor lies."""

import math
import mmap
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

from agents.weights.errors import CorruptWeightsError
from templates_lib.models.gguf_metadata import SENSELESS, GgufCursor

KEPT_ARRAY_ENTRIES = 4096


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
        return _Cursor(mapped).header()
    except SENSELESS as error:
        raise CorruptWeightsError(path, f"is no whole GGUF file ({error})") from error


class _Cursor(GgufCursor):
    def header(self) -> GgufHeader:
        tensors, entries = self.counts()
        metadata = self.metadata(entries, KEPT_ARRAY_ENTRIES)
        described = [self._tensor() for _ in range(tensors)]
        alignment = metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or alignment < 1:
            raise ValueError(f"general.alignment is {alignment!r}")
        start = -(-self._at // alignment) * alignment
        return GgufHeader(metadata, {name: self._placed(name, tensor, start) for name, tensor in described})

    def _tensor(self) -> tuple[str, StoredTensor]:
        """Offset still from the start of the tensor data."""
        name = self.string()
        dimensions = self.scalar("I")
        if not 1 <= dimensions <= 4:
            raise ValueError(f"tensor {name!r} has {dimensions} dimensions")
        shape = tuple(self.scalar("Q") for _ in range(dimensions))[::-1]
        kind = GGMLQuantizationType(self.scalar("I"))
        block, block_bytes = GGML_QUANT_SIZES[kind]
        if shape[-1] % block:
            raise ValueError(f"tensor {name!r} has rows of {shape[-1]}, no multiple of {block}")
        return name, StoredTensor(kind, shape, self.scalar("Q"), math.prod(shape) // block * block_bytes)

    def _placed(self, name: str, tensor: StoredTensor, start: int) -> StoredTensor:
        if start + tensor.offset + tensor.size > len(self._mapped):
            raise ValueError(f"tensor {name!r} ends past the file's {len(self._mapped)} bytes")
        return replace(tensor, offset=start + tensor.offset)
