"""Answers of /v1/completions."""

from typing import Any

import msgspec

from control.gateway.reply import DONE, Piece, Usage, event
from control.gateway.service_tier import ServiceTier
from control.gateway.tokenizer import Tokenizer


class CompletionReply:
    def __init__(
        self,
        id_: str,
        model: str,
        created: int,
        tokenizer: Tokenizer,
        with_usage: bool,
        service_tier: ServiceTier | None,
    ) -> None:
        self._tokenizer = tokenizer
        self._with_usage = with_usage
        self._offset = 0
        """Characters of the answer so far."""
        self._head: dict[str, Any] = {
            "id": f"cmpl-{id_}",
            "object": "text_completion",
            "created": created,
            "model": model,
        }
        if service_tier is not None:
            self._head["service_tier"] = service_tier
        # A stream is a million events of which only the text differs: the rest is encoded once.
        start, end = msgspec.json.encode(self._event(Piece("\0"), None)).split(b'"\\u0000"')
        self._before, self._after = b"data: " + start, end + b"\n\n"

    def opening(self) -> bytes:
        return b""

    def chunk(self, piece: Piece) -> bytes:
        if piece.logprobs:
            return event(self._event(piece, None))
        return self._before + msgspec.json.encode(piece.text) + self._after

    def closing(self, finish_reason: str, usage: Usage | None) -> bytes:
        last = event(self._event(Piece(""), finish_reason))
        if usage is not None:
            last += event({**self._head, "choices": [], "usage": usage.as_json()})
        return last + DONE

    def whole(self, pieces: list[Piece], finish_reason: str, usage: Usage) -> bytes:
        piece = Piece(
            "".join(piece.text for piece in pieces),
            tuple(token for piece in pieces for token in piece.ids),
            tuple(entry for piece in pieces for entry in piece.logprobs),
        )
        answer = self._head | {"choices": [self._choice(piece, finish_reason)], "usage": usage.as_json()}
        return msgspec.json.encode(answer)

    def _event(self, piece: Piece, finish_reason: str | None) -> dict[str, Any]:
        usage = {"usage": None} if self._with_usage else {}
        return self._head | {"choices": [self._choice(piece, finish_reason)]} | usage

    def _choice(self, piece: Piece, finish_reason: str | None) -> dict[str, Any]:
        logprobs = self._logprobs(piece) if piece.logprobs else None
        return {"index": 0, "text": piece.text, "logprobs": logprobs, "finish_reason": finish_reason}

    def _logprobs(self, piece: Piece) -> dict[str, Any]:
        text = self._tokenizer.token_text
        tokens = [text(token) for token in piece.ids]
        offsets = []
        for token in tokens:
            offsets.append(self._offset)
            self._offset += len(token)
        return {
            "tokens": tokens,
            "token_logprobs": [entry.chosen for entry in piece.logprobs],
            "top_logprobs": [{text(token): value for token, value in entry.top} for entry in piece.logprobs],
            "text_offset": offsets,
        }
