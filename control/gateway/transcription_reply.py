"""Answers of /v1/audio/transcriptions: the text, or events of its pieces."""

import msgspec

from control.gateway.reply import DONE, Choice, Piece, Usage, event, joined


class TranscriptionReply:
    shows_special = False

    def __init__(self, *_about: object) -> None:
        """`_about`: what other answers say of themselves (`control.gateway.generation.MakeReply`)."""
        self._text = ""

    def opening(self) -> bytes:
        return b""

    def chunk(self, piece: Piece, choice: int) -> bytes:  # noqa: ARG002 - there is one
        # A text begins with the space that its first word has before it.
        new = piece.text if self._text else piece.text.lstrip()
        self._text += new
        return event({"type": "transcript.text.delta", "delta": new}) if new else b""

    def end(self, choice: int, finish_reason: str) -> bytes:  # noqa: ARG002 - OpenAI's says no reason
        return event({"type": "transcript.text.done", "text": self._text})

    def closing(self, usage: Usage | None) -> bytes:  # noqa: ARG002 - nobody can ask for it
        return DONE

    def whole(self, choices: list[Choice], usage: Usage) -> bytes:
        (only,) = choices
        tokens = {"input_tokens": usage.prompt_tokens, "output_tokens": usage.completion_tokens}
        about = {"type": "tokens", **tokens, "total_tokens": sum(tokens.values())}
        return msgspec.json.encode({"text": joined(only.pieces).text.strip(), "usage": about})
