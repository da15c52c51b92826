"""What a tensor is made of, as producers say and consumers are told."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from agents.messages.bounds import Count

TensorName = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_.:\-]{1,200}\Z")]
"""Chosen by the producer, once in the whole fleet: the request, the edge of the graph, which of its tensors."""

ElementType = Literal[
    "bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64",
    "float16", "bfloat16", "float32", "float64",
]  # fmt: skip
"""By numpy's and torch's names."""

Shape = Annotated[tuple[Count, ...], Meta(max_length=16)]


class TensorSpec(Struct, frozen=True, array_like=True):
    dtype: ElementType
    shape: Shape
    """Of the whole; of one row of a stream."""
    is_stream: bool = False
    """It comes in chunks of any number of rows, and how many is known at its end."""
