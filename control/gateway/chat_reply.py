"""Answers of /v1/chat/completions."""

from typing import Any

import msgspec

from control.gateway.reply import DONE, Choice, Piece, Usage, around_text, event, joined
from control.gateway.service_tier import ServiceTier
from control.gateway.token_logprobs import token_logprobs
from control.gateway.tokenizer import Tokenizer


class ChatReply:
    shows_special = False

    def __init__(
        self,
        id_: str,
        model: str,
        created: int,
        tokenizer: Tokenizer,
        with_usage: bool,
        service_tier: ServiceTier | None,
        choices: int,
    ) -> None:
        self._tokenizer = tokenizer
        self._with_usage = with_usage
        self._head: dict[str, Any] = {"id": f"chatcmpl-{id_}", "created": created, "model": model}
        if service_tier is not None:
            self._head["service_tier"] = service_tier
        self._around = [around_text(self.event({"content": "\0"}, choice)) for choice in range(choices)]

    def opening(self) -> bytes:
        first = {"role": "assistant", "content": ""}
        return b"".join(event(self.event(first, choice)) for choice in range(len(self._around)))

    def chunk(self, piece: Piece, choice: int) -> bytes:
        if piece.logprobs:
            return event(self.event({"content": piece.text}, choice, self.logprobs([piece])))
        before, after = self._around[choice]
        return before + msgspec.json.encode(piece.text) + after

    def end(self, choice: int, finish_reason: str) -> bytes:
        return event(self.event({}, choice, None, finish_reason))

    def closing(self, usage: Usage | None) -> bytes:
        if usage is None:
            return DONE
        head = self._head | {"object": "chat.completion.chunk"}
        return event(head | {"choices": [], "usage": usage.as_json()}) + DONE

    def whole(self, choices: list[Choice], usage: Usage) -> bytes:
        messages = [{"role": "assistant", "content": joined(one.pieces).text, "refusal": None} for one in choices]
        return msgspec.json.encode(self.answer(messages, choices, [one.finish_reason for one in choices], usage))

    def answer(
        self, messages: list[dict[str, Any]], choices: list[Choice], reasons: list[str], usage: Usage
    ) -> dict[str, Any]:
        """The body of an answer, of messages and the reasons why they end."""
        answers = [
            {"index": n, "message": message, "logprobs": self.logprobs(one.pieces), "finish_reason": reason}
            for n, (message, one, reason) in enumerate(zip(messages, choices, reasons, strict=True))
        ]
        return self._head | {"object": "chat.completion", "choices": answers, "usage": usage.as_json()}

    def event(
        self, delta: dict[str, Any], choice: int, logprobs: Any = None, finish_reason: str | None = None
    ) -> dict[str, Any]:
        part = {"index": choice, "delta": delta, "logprobs": logprobs, "finish_reason": finish_reason}
        usage = {"usage": None} if self._with_usage else {}
        return self._head | {"object": "chat.completion.chunk", "choices": [part]} | usage

    def logprobs(self, pieces: list[Piece]) -> dict[str, Any] | None:
        content = token_logprobs(self._tokenizer, pieces)
        return {"content": content, "refusal": None} if content else None
