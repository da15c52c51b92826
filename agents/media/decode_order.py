"""What goes between a decoder's process and who asks it: MessagePack, behind its length in four bytes."""

from typing import Any

import msgspec

from templates_lib.media.image_format import ImageFormat
from templates_lib.media.media_error import MediaFault

LENGTH_BYTES = 4
READY = b"\x06"
"""The first byte that a decoder writes: it has what it needs."""
CHANNELS = 3
"""Bytes of a pixel: red, green, blue."""
MOST_REPLY_BYTES = 1 << 12
MOST_RGB_BYTES = 1 << 27
"""Of 40 Mpixel, and some more: a process that a picture has taken over does not fill the memory of who asks it."""


class DecodeOrder(msgspec.Struct, frozen=True):
    """A picture, and what its header says."""

    format: ImageFormat
    width: int
    height: int
    orientation: int
    data: bytes
    rule: str = ""
    """How the picture is to be cut: a name of `templates_lib.media.rules`; empty: it is not."""
    parameters: dict[str, Any] = {}
    """Of the rule."""


class DecodeReply(msgspec.Struct, frozen=True):
    """Behind it come `pieces` of `width` times `height` pixels of `CHANNELS` bytes, unless there is a fault."""

    width: int = 0
    height: int = 0
    pieces: int = 0
    fault: MediaFault | None = None
    message: str = ""


def framed(message: DecodeOrder | DecodeReply) -> bytes:
    body = msgspec.msgpack.encode(message)
    return len(body).to_bytes(LENGTH_BYTES) + body
