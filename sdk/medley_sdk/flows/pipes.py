"""The pipes of a process of users' code: its standard input and output, which the code itself does not see."""

from collections.abc import Iterator
from typing import Any, BinaryIO

import msgspec

from medley_sdk.messages import HEADER_BYTES


class Pipes:
    def __init__(self, asks: BinaryIO, replies: BinaryIO, reads: Any) -> None:
        """`reads`: types of the messages that come."""
        self._asks, self._replies = asks, replies
        self._decoder, self._encoder = msgspec.msgpack.Decoder(reads), msgspec.msgpack.Encoder()

    def read(self) -> Any:
        """Return the next message. Raises EOFError once the other end is gone."""
        header = self._asks.read(HEADER_BYTES)
        if len(header) < HEADER_BYTES:
            raise EOFError
        return self._decoder.decode(self._asks.read(int.from_bytes(header, "big")))

    def messages(self) -> Iterator[Any]:
        """Yield messages until the other end is gone."""
        try:
            while True:
                yield self.read()
        except EOFError:
            return

    def write(self, message: Any) -> None:
        data = self._encoder.encode(message)
        self._replies.write(len(data).to_bytes(HEADER_BYTES, "big") + data)
        self._replies.flush()
