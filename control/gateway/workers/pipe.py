"""Messages over one end of a socket pair: MessagePack, each behind its length."""

import asyncio
import socket
from contextlib import suppress
from typing import Generic, TypeVar

import msgspec

from agents.messages.to_preprocessor import LENGTH_BYTES, framed

Heard = TypeVar("Heard")
_ENCODER = msgspec.msgpack.Encoder()
_MOST_UNREAD_BYTES = 1 << 20


class PipeClosedError(Exception):
    """The other end is gone."""


class Pipe(Generic[Heard]):
    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, decoder: msgspec.msgpack.Decoder[Heard]
    ) -> None:
        """`decoder`: of the messages that come."""
        self._reader = reader
        self._writer = writer
        self._decoder = decoder

    @classmethod
    async def over(cls, end: socket.socket, decoder: msgspec.msgpack.Decoder[Heard]) -> "Pipe[Heard]":
        end.setblocking(False)
        return cls(*await asyncio.open_unix_connection(sock=end), decoder)

    def send(self, message: msgspec.Struct) -> None:
        """A message for an end that is gone is lost, which `receive` finds out."""
        if not self._writer.is_closing():
            self._writer.write(framed(_ENCODER.encode(message)))

    @property
    def is_full(self) -> bool:
        """Tell whether the other end has not taken what was sent for so long that no more should be sent."""
        return self._writer.transport.get_write_buffer_size() > _MOST_UNREAD_BYTES

    async def receive(self) -> Heard:
        """Raises PipeClosedError."""
        try:
            size = int.from_bytes(await self._reader.readexactly(LENGTH_BYTES))
            return self._decoder.decode(await self._reader.readexactly(size))
        except (asyncio.IncompleteReadError, OSError):
            raise PipeClosedError from None

    async def close(self) -> None:
        """What was sent is written first."""
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()
