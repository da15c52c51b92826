"""What the two endpoints' answers have in common, and how an answer's end and usage are said."""

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


@dataclass(frozen=True, slots=True)
class Usage:
    prompt_tokens: int
    completion_tokens: int
    cached_prompt_tokens: int

    def as_json(self) -> dict[str, Any]:
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": self.cached_prompt_tokens},
        }


class Reply(Protocol):
    """Renders one answer of one endpoint. Events are whole server-sent events."""

    def opening(self) -> bytes:
        """Event before the first text; may be empty."""

    def chunk(self, piece: Piece) -> bytes: ...

    def closing(self, finish_reason: str, usage: Usage | None) -> bytes:
        """The end's event, the usage's where given, and the mark of the end."""

    def whole(self, pieces: list[Piece], finish_reason: str, usage: Usage) -> bytes:
        """The body of an answer that is not streamed."""


def event(value: Any) -> bytes:
    return b"data: " + msgspec.json.encode(value) + b"\n\n"


def error_event(error: ApiError) -> bytes:
    """Event on which clients raise an error: in the middle of a stream the status is gone already."""
    return b"data: " + error.encode() + b"\n\n" + DONE
