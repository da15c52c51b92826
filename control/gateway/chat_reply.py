"""Answers of /v1/chat/completions."""

from typing import Any

import msgspec

from control.gateway.reply import DONE, Piece, Usage, event
from control.gateway.service_tier import ServiceTier
from control.gateway.tokenizer import Tokenizer


class ChatReply:
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
        self._head: dict[str, Any] = {"id": f"chatcmpl-{id_}", "created": created, "model": model}
        if service_tier is not None:
            self._head["service_tier"] = service_tier
        start, end = msgspec.json.encode(self._event({"content": "\0"}, None, None)).split(b'"\\u0000"')
        self._before, self._after = b"data: " + start, end + b"\n\n"

    def opening(self) -> bytes:
        return event(self._event({"role": "assistant", "content": ""}, None, None))

    def chunk(self, piece: Piece) -> bytes:
        if piece.logprobs:
            return event(self._event({"content": piece.text}, self._logprobs([piece]), None))
        return self._before + msgspec.json.encode(piece.text) + self._after

    def closing(self, finish_reason: str, usage: Usage | None) -> bytes:
        last = event(self._event({}, None, finish_reason))
        if usage is not None:
            head = self._head | {"object": "chat.completion.chunk"}
            last += event(head | {"choices": [], "usage": usage.as_json()})
        return last + DONE

    def whole(self, pieces: list[Piece], finish_reason: str, usage: Usage) -> bytes:
        text = "".join(piece.text for piece in pieces)
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": text, "refusal": None},
            "logprobs": self._logprobs(pieces),
            "finish_reason": finish_reason,
        }
        answer = self._head | {"object": "chat.completion", "choices": [choice], "usage": usage.as_json()}
        return msgspec.json.encode(answer)

    def _event(self, delta: dict[str, Any], logprobs: Any, finish_reason: str | None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": finish_reason}
        usage = {"usage": None} if self._with_usage else {}
        return self._head | {"object": "chat.completion.chunk", "choices": [choice]} | usage

    def _logprobs(self, pieces: list[Piece]) -> dict[str, Any] | None:
        content = [
            self._token(token, entry.chosen) | {"top_logprobs": [self._token(*other) for other in entry.top]}
            for piece in pieces
            for token, entry in zip(piece.ids, piece.logprobs, strict=False)
        ]
        return {"content": content, "refusal": None} if content else None

    def _token(self, token: int, logprob: float) -> dict[str, Any]:
        text = self._tokenizer.token_text(token)
        return {"token": text, "logprob": logprob, "bytes": list(text.encode())}
