"""Sizes: what a tensor and its chunks take, and whether a chunk is the one that is due."""

import math

from agents.messages.tensor_spec import TensorSpec
from agents.transfer.errors import BadPieceError

ITEM_BYTES = {
    "bool": 1, "uint8": 1, "int8": 1, "uint16": 2, "int16": 2, "uint32": 4, "int32": 4, "uint64": 8, "int64": 8,
    "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8,
}  # fmt: skip


def spec_bytes(spec: TensorSpec) -> int:
    """Bytes of the whole tensor, or of one row of a stream."""
    return math.prod(spec.shape) * ITEM_BYTES[spec.dtype]


def check_rows(spec: TensorSpec, size: int, most_bytes: int) -> None:
    """Raises BadPieceError for a chunk of a stream that is not a number of whole rows, or too large."""
    row = spec_bytes(spec)
    if not size or not row or size % row or size > most_bytes:
        rows = f"{spec.dtype} {spec.shape}, {row} bytes each"
        raise BadPieceError(f"a chunk of {size} bytes is no number of rows ({rows}), or above {most_bytes}")
