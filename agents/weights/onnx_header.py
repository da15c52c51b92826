"""What of an ONNX file is needed to find weights: its stored tensors, and the products and sums that they are part of.

Protocol buffers are read field by field (https://protobuf.dev/programming-guides/encoding; ONNX: `onnx.proto3`), and
tensors' bytes are left where they lie."""

import math
import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from agents.weights.errors import CorruptWeightsError

DTYPES = {1: torch.float32, 6: torch.int32, 7: torch.int64, 10: torch.float16, 11: torch.float64, 16: torch.bfloat16}
"""Numbers of `TensorProto.DataType` that are read."""
_GRAPH, _NODE, _INITIALIZER = 7, 1, 5
_INPUT, _OUTPUT, _OPERATION = 1, 2, 4
_DIMS, _DATA_TYPE, _NAME, _RAW_DATA = 1, 2, 8, 9
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MOST_ENTRIES = 1 << 20

Span = tuple[int, int]
"""First byte, and the one behind the last."""


@dataclass(frozen=True, slots=True)
class OnnxTensor:
    shape: tuple[int, ...]
    dtype: torch.dtype
    offset: int
    """Bytes from the start of the file."""
    size: int
    """Bytes."""


@dataclass(frozen=True, slots=True)
class OnnxNode:
    operation: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OnnxHeader:
    tensors: dict[str, OnnxTensor]
    """Those of numbers that are stored in the file."""
    nodes: tuple[OnnxNode, ...]


def read_header(path: Path, mapped: mmap.mmap) -> OnnxHeader:
    """Raises CorruptWeightsError where the file makes no sense."""
    try:
        graphs = list(_spans(mapped, (0, len(mapped)), _GRAPH))
        if len(graphs) != 1:
            raise ValueError(f"it has {len(graphs)} graphs")
        nodes = tuple(_node(mapped, span) for span in _spans(mapped, graphs[0], _NODE))
        found = [_tensor(mapped, span) for span in _spans(mapped, graphs[0], _INITIALIZER)]
    except (ValueError, IndexError, UnicodeDecodeError) as error:
        raise CorruptWeightsError(path, f"is no whole ONNX file ({error})") from error
    return OnnxHeader({name: tensor for name, tensor in found if tensor is not None}, nodes)


def _node(mapped: mmap.mmap, span: Span) -> OnnxNode:
    (operation,) = _texts(mapped, span, _OPERATION)
    return OnnxNode(operation, _texts(mapped, span, _INPUT), _texts(mapped, span, _OUTPUT))


def _tensor(mapped: mmap.mmap, span: Span) -> tuple[str, OnnxTensor | None]:
    """None for one whose bytes are elsewhere, or in a form or type that is not read."""
    names, raw = _texts(mapped, span, _NAME), [*_spans(mapped, span, _RAW_DATA)]
    dims, kinds = _numbers(mapped, span, _DIMS), _numbers(mapped, span, _DATA_TYPE)
    name, dtype = names[0] if names else "", DTYPES.get(kinds[0] if kinds else 0)
    if dtype is None or len(raw) != 1:
        return name, None
    start, end = raw[0]
    if end - start != math.prod(dims) * dtype.itemsize:
        raise ValueError(f"tensor {name!r} of shape {dims} has {end - start} bytes")
    return name, OnnxTensor(dims, dtype, start, end - start)


def _texts(mapped: mmap.mmap, span: Span, wanted: int) -> tuple[str, ...]:
    return tuple(mapped[start:end].decode() for start, end in _spans(mapped, span, wanted))


def _spans(mapped: mmap.mmap, span: Span, wanted: int) -> Iterator[Span]:
    """Where the fields of bytes with this number lie."""
    return (value for number, value in _fields(mapped, span) if number == wanted and isinstance(value, tuple))


def _numbers(mapped: mmap.mmap, span: Span, wanted: int) -> tuple[int, ...]:
    """Whole numbers of a field, each by itself or all behind each other."""
    found: list[int] = []
    for number, value in _fields(mapped, span):
        if number != wanted:
            continue
        if isinstance(value, int):
            found.append(value)
            continue
        at, end = value
        while at < end:
            each, at = _varint(mapped, at, end)
            found.append(each)
    return tuple(found)


def _fields(mapped: mmap.mmap, span: Span) -> Iterator[tuple[int, int | Span]]:
    """Number of each field, and its value or place; numbers of fixed width are passed over."""
    at, end = span
    entries = 0
    while at < end:
        entries += 1
        if entries > _MOST_ENTRIES:
            raise ValueError("too many entries")
        key, at = _varint(mapped, at, end)
        kind = key & 7
        if kind == _VARINT:
            value, at = _varint(mapped, at, end)
            yield key >> 3, value
        elif kind == _BYTES:
            length, at = _varint(mapped, at, end)
            if at + length > end:
                raise ValueError(f"a field at byte {at} ends past what it is in")
            yield key >> 3, (at, at + length)
            at += length
        elif kind in (_FIXED32, _FIXED64):
            at += 4 if kind == _FIXED32 else 8
        else:
            raise ValueError(f"a field at byte {at} is of no known kind")


def _varint(mapped: mmap.mmap, at: int, end: int) -> tuple[int, int]:
    """The number at a place, seven bits a byte, and the place behind it."""
    value = 0
    for place in range(10):
        if at >= end:
            raise ValueError("a number ends past what it is in")
        byte = mapped[at]
        at += 1
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value, at
    raise ValueError(f"a number before byte {at} has no end")
