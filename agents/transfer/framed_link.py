"""Messages over a link, each with the bytes of a piece behind it."""

import struct
from collections.abc import Sequence
from contextlib import nullcontext

from agents.transfer.errors import BadPieceError
from agents.transfer.link import LinkEnd
from agents.transfer.memory import Memory

_BEGIN = struct.Struct("<HQ")
"""Bytes of a message, and of the piece behind it."""


class FramedLink:
    """For one thread at each end. Once it has raised an error it is to be closed."""

    def __init__(self, end: LinkEnd, max_message_bytes: int) -> None:
        self._end = end
        self._max_message_bytes = max_message_bytes
        end.wake_at(1)  # and again behind each message, whose last byte is received alone
        self.fileno, self.close, self.has_more = end.fileno, end.close, end.has_more

    def send(self, message: bytes, parts: Sequence[memoryview] = ()) -> None:
        """Raises LinkLostError."""
        size = sum(map(len, parts))
        self._end.send_piece(_BEGIN.pack(len(message), size) + message, size, lambda: nullcontext(parts))

    def receive(self) -> tuple[bytes, int]:
        """Receives a message, however long it takes to come, and how many bytes of a piece are to be received next.
        Raises LinkLostError, and BadPieceError for a message that is too large."""
        length, size = _BEGIN.unpack(self._end.receive(_BEGIN.size, is_due=False))
        if length > self._max_message_bytes:
            raise BadPieceError(f"a message of {length} bytes is too large")
        return self._end.receive(length), size

    def receive_piece(self, size: int, memory: Memory | None) -> None:
        """Receives the piece, to be passed over where there is no memory; also where it has no bytes. Raises
        LinkLostError."""
        self._end.receive_piece(size, memory)
