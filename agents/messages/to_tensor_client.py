"""Answers of a sidecar: to processes of its node, by the number of their call, and over links to other sidecars."""

from typing import Literal

from msgspec import Struct

from agents.messages.bounds import Count, Text
from agents.messages.tensor_spec import TensorSpec
from agents.messages.to_sidecar import SidecarAddress

TensorFault = Literal["gone", "full", "bad", "lost"]
"""Make it again; it never fits; the asker's bug; the other node is out of reach."""


class Attached(Struct, frozen=True, array_like=True, tag="attached"):
    """Comes with the slab's descriptor."""

    call: Count
    slab_bytes: Count
    chunk_bytes: Count
    """All but the last chunk of a tensor that is no stream have this size."""
    address: SidecarAddress
    """For consumers of other nodes."""


class Granted(Struct, frozen=True, array_like=True, tag="granted"):
    """Memory in the slab, to be written and committed, or released."""

    call: Count
    offset: Count
    size: Count


class Accepted(Struct, frozen=True, array_like=True, tag="accepted"):
    call: Count


class Adopted(Struct, frozen=True, array_like=True, tag="adopted"):
    call: Count
    spec: TensorSpec | None
    """None: nothing is kept under that key."""


class ChunkHere(Struct, frozen=True, array_like=True, tag="chunk"):
    """The chunk lies there until it is released. Chunks of a tensor that is no stream follow each other."""

    call: Count
    spec: TensorSpec
    chunks: Count
    """Of the whole; 0: a stream."""
    offset: Count
    size: Count


class TensorEnded(Struct, frozen=True, array_like=True, tag="ended"):
    """There is no such chunk: the tensor is complete, and has fewer."""

    call: Count
    spec: TensorSpec


class TensorRefused(Struct, frozen=True, array_like=True, tag="refused_tensor"):
    call: Count
    fault: TensorFault
    reason: Text


ToTensorClient = Attached | Granted | Accepted | Adopted | ChunkHere | TensorEnded | TensorRefused


class LinkReply(Struct, frozen=True, array_like=True, tag="reply"):
    """Over a link, in the order of what was asked. A chunk is behind it."""

    answer: Literal["spec", "chunk", "ended", "gone", "bad", "pulled"]
    """What it is; here it is; there are no more; freed or not come; it cannot be had so; the offer is taken up."""
    reason: Text = ""
    spec: TensorSpec | None = None
    chunk_bytes: Count = 0
