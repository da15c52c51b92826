"""What a consumer of a blob asks the store that has it, and what it gets, in the same order."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from agents.messages.bounds import Count, Text

MAX_MESSAGE_BYTES = 8192

BlobName = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_.:\-]{1,200}\Z")]


class Take(Struct, frozen=True, array_like=True, tag="take"):
    """One credit: the store sends the piece as soon as it is there."""

    name: BlobName
    consumer: Annotated[str, Meta(pattern=r"\A[0-9a-f]{32}\Z")]
    """A secret of the consumer's, by which it goes on over another connection."""
    index: Count
    done: Count
    """Pieces that it needs no more."""
    wait_s: Annotated[float, Meta(gt=0, le=3600)]
    """For a blob that is not there yet."""


class StoreReply(Struct, frozen=True, array_like=True, tag="reply"):
    answer: Literal["piece", "ended", "gone", "bad"]
    """The piece is here or behind this; there are no more; the blob is freed or did not come; it cannot be taken so."""
    reason: Text = ""
