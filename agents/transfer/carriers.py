"""What carries messages and pieces from a store to a consumer: shared memory inside a node, a link between nodes."""

import socket
import struct
from contextlib import nullcontext

from agents.messages.to_store import MAX_MESSAGE_BYTES
from agents.transfer.errors import BadPieceError, LinkLostError
from agents.transfer.link import LinkEnd
from agents.transfer.meeting import LinkAddress
from agents.transfer.memory import Segment

_BEGIN = struct.Struct("<HQ")
"""Bytes of a message, and of the piece behind it."""


class LocalCarrier:
    """A socket of this machine that keeps messages apart and passes the memory of a piece along."""

    resume_s = 0.0
    """Time that a consumer may take to come back: who loses a connection like this is dead."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.fileno, self.close = connection.fileno, connection.close

    def send(self, message: bytes, piece: Segment | None = None) -> None:
        """Raises LinkLostError."""
        try:
            socket.send_fds(self._connection, [message], [] if piece is None else [piece.descriptor])
        except OSError as error:
            raise LinkLostError(str(error)) from error

    def receive(self) -> tuple[bytes, Segment | None]:
        """Receives a message, however long it takes to come, and the piece with it. Raises LinkLostError."""
        try:
            cloexec = socket.MSG_CMSG_CLOEXEC
            message, passed, _, _ = socket.recv_fds(self._connection, MAX_MESSAGE_BYTES, 1, cloexec)
        except OSError as error:
            raise LinkLostError(str(error)) from error
        piece = Segment(passed[0]) if passed else None
        if not message:
            raise LinkLostError("the other end has closed the connection")
        return message, piece


class LinkCarrier:
    """A link to another node, over which the bytes of a piece go as they lie in memory."""

    def __init__(self, end: LinkEnd, resume_s: float, max_piece_bytes: int = 0) -> None:
        self.resume_s = resume_s
        self._end = end
        self._max_piece_bytes = max_piece_bytes
        self.fileno, self.close = end.fileno, end.close

    def send(self, message: bytes, piece: Segment | None = None) -> None:
        """Raises LinkLostError."""
        parts = () if piece is None else (piece.view(),)
        size = sum(map(len, parts))
        self._end.send_piece(_BEGIN.pack(len(message), size) + message, size, lambda: nullcontext(parts))

    def receive(self) -> tuple[bytes, Segment | None]:
        """Receives as `LocalCarrier` does. Raises BadPieceError for what is too large, before memory is claimed."""
        length, size = _BEGIN.unpack(self._end.receive(_BEGIN.size, is_due=False))
        if length > MAX_MESSAGE_BYTES or size > self._max_piece_bytes:
            raise BadPieceError(f"a message of {length} bytes with a piece of {size} is too large")
        message, piece = self._end.receive(length), Segment.allocate(size)
        self._end.receive_piece(size, piece.memory())
        return message, piece


Carrier = LocalCarrier | LinkCarrier
"""One end of a connection, for one thread. Once it has raised an error it is to be closed."""


def dial(store: str | LinkAddress, stall_s: float, max_piece_bytes: int) -> Carrier:
    """`store`: its local address, or that of its links. Raises LinkLostError where there is none."""
    if isinstance(store, LinkAddress):
        return LinkCarrier(store.connect(stall_s), stall_s, max_piece_bytes)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        connection.connect(f"\0{store}")
    except OSError as error:
        connection.close()
        raise LinkLostError(f"no store at {store}: {error}") from error
    return LocalCarrier(connection)
