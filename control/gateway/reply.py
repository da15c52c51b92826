"""What answers of all endpoints have in common, and how an answer's end and usage are said."""

from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from agents.messages.to_gateway import TokenLogprobs
from control.gateway.api_error import ApiError

DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True, slots=True)
class Piece:
    """Some of an answer: text, and the tokens (with log-probabilities, where asked for) that it came of."""

    text: str
    ids: tuple[int, ...] = ()
    logprobs: tuple[TokenLogprobs, ...] = ()
    state: bytes = b""
    """Of the prompt, where that was asked for: fp32, little-endian."""


@dataclass(frozen=True, slots=True)
class Usage:
    prompt_tokens: int
    completion_tokens: int
    cached_prompt_tokens: int

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.cached_prompt_tokens + other.cached_prompt_tokens,
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": self.cached_prompt_tokens},
        }


@dataclass(frozen=True, slots=True)
class Choice:
    """One whole answer."""

    pieces: list[Piece]
    finish_reason: str


class WholeReply(Protocol):
    """Renders the answers to one request of one endpoint, once all of them are there."""

    @property
    def shows_special(self) -> bool:
        """Whether text must have special tokens, too."""

    def whole(self, choices: list[Choice], usage: Usage) -> bytes:
        """The body of answers that are not streamed. Raises ApiError."""


class Reply(WholeReply, Protocol):
    """The same for answers that may be streamed. Events are whole server-sent events, `choice` is the number of an
    answer."""

    def opening(self) -> bytes:
        """Events before the first text; may be empty."""

    def chunk(self, piece: Piece, choice: int) -> bytes: ...

    def end(self, choice: int, finish_reason: str) -> bytes:
        """The event that ends one answer."""

    def closing(self, usage: Usage | None) -> bytes:
        """The usage's event, where given, and the mark of the end."""


def joined(pieces: list[Piece]) -> Piece:
    """Put the pieces of an answer together."""
    return Piece(
        "".join(piece.text for piece in pieces),
        tuple(token for piece in pieces for token in piece.ids),
        tuple(entry for piece in pieces for entry in piece.logprobs),
    )


def around_text(value: Any) -> tuple[bytes, bytes]:
    """Bytes of an event before and behind its text, which is a NUL in `value`."""
    start, end = msgspec.json.encode(value).split(b'"\\u0000"')
    return b"data: " + start, end + b"\n\n"


def event(value: Any) -> bytes:
    return b"data: " + msgspec.json.encode(value) + b"\n\n"


def error_event(error: ApiError) -> bytes:
    """Event on which clients raise an error: in the middle of a stream the status is gone already."""
    return b"data: " + error.encode() + b"\n\n" + DONE
