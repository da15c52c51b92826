"""Message ⇄ bytes: msgpack, decoded into bounded, typed structs and nothing else."""

from typing import Any, Generic, TypeVar

import msgspec

from agents.messages.session import SessionMessage

Message = TypeVar("Message")

_encoder = msgspec.msgpack.Encoder()


class MalformedMessageError(ValueError):
    """Bytes that are no message of the expected kind, or break a bound."""


class Decoder(Generic[Message]):
    """Reads the messages of one receiver, and those of the session."""

    def __init__(self, receives: Any) -> None:
        """`receives`: a union of tagged structs, such as `ToScheduler`."""
        self._decoder: msgspec.msgpack.Decoder[Message | SessionMessage] = msgspec.msgpack.Decoder(
            receives | SessionMessage
        )

    def decode(self, payload: bytes) -> Message | SessionMessage:
        try:
            return self._decoder.decode(payload)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise MalformedMessageError(str(error)) from error


def encode(message: msgspec.Struct) -> bytes:
    return _encoder.encode(message)
