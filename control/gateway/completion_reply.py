"""Answers of /v1/completions."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec

from control.gateway.generation_params import Prompt
from control.gateway.reply import DONE, Choice, Piece, Usage, around_text, event, joined
from control.gateway.service_tier import ServiceTier
from control.gateway.tokenizer import Tokenizer


class CompletionReply:
    shows_special = False

    def __init__(
        self,
        echoed: Sequence[Prompt],
        id_: str,
        model: str,
        created: int,
        tokenizer: Tokenizer,
        with_usage: bool,
        service_tier: ServiceTier | None,
        choices: int,
    ) -> None:
        """`echoed`: prompts that the answers begin with; none where that was not asked for."""
        self._tokenizer = tokenizer
        self._echoed = [_text(prompt, tokenizer) for prompt in echoed for _ in range(choices // len(echoed))]
        self._with_usage = with_usage
        self._offsets = [0] * choices
        """Characters of each answer so far."""
        self._head: dict[str, Any] = {
            "id": f"cmpl-{id_}",
            "object": "text_completion",
            "created": created,
            "model": model,
        }
        if service_tier is not None:
            self._head["service_tier"] = service_tier
        # A stream is a million events of which only the text differs: the rest is encoded once.
        self._around = [around_text(self._event(Piece("\0"), choice, None)) for choice in range(choices)]

    def opening(self) -> bytes:
        return b"".join(event(self._event(Piece(text), choice, None)) for choice, text in enumerate(self._echoed))

    def chunk(self, piece: Piece, choice: int) -> bytes:
        if piece.logprobs:
            return event(self._event(piece, choice, None))
        before, after = self._around[choice]
        return before + msgspec.json.encode(piece.text) + after

    def end(self, choice: int, finish_reason: str) -> bytes:
        return event(self._event(Piece(""), choice, finish_reason))

    def closing(self, usage: Usage | None) -> bytes:
        last = b"" if usage is None else event({**self._head, "choices": [], "usage": usage.as_json()})
        return last + DONE

    def whole(self, choices: list[Choice], usage: Usage) -> bytes:
        answers = [
            self._choice(self._begun(joined(one.pieces), n), n, one.finish_reason) for n, one in enumerate(choices)
        ]
        return msgspec.json.encode(self._head | {"choices": answers, "usage": usage.as_json()})

    def _begun(self, answer: Piece, choice: int) -> Piece:
        return replace(answer, text=self._echoed[choice] + answer.text) if self._echoed else answer

    def _event(self, piece: Piece, choice: int, finish_reason: str | None) -> dict[str, Any]:
        usage = {"usage": None} if self._with_usage else {}
        return self._head | {"choices": [self._choice(piece, choice, finish_reason)]} | usage

    def _choice(self, piece: Piece, choice: int, finish_reason: str | None) -> dict[str, Any]:
        logprobs = self._logprobs(piece, choice) if piece.logprobs else None
        return {"index": choice, "text": piece.text, "logprobs": logprobs, "finish_reason": finish_reason}

    def _logprobs(self, piece: Piece, choice: int) -> dict[str, Any]:
        text = self._tokenizer.token_text
        tokens = [text(token) for token in piece.ids]
        offsets = []
        for token in tokens:
            offsets.append(self._offsets[choice])
            self._offsets[choice] += len(token)
        # The chosen token is always among the alternatives, as the API has it: one more where it is none of the best.
        tops = [
            {text(token): value for token, value in entry.top} | {chosen: entry.chosen}
            for chosen, entry in zip(tokens, piece.logprobs, strict=False)
        ]
        return {
            "tokens": tokens,
            "token_logprobs": [entry.chosen for entry in piece.logprobs],
            "top_logprobs": tops,
            "text_offset": offsets,
        }


def _text(prompt: Prompt, tokenizer: Tokenizer) -> str:
    """Text of a completion's prompt: as it was sent, or of its tokens."""
    return tokenizer.decode(prompt) if isinstance(prompt, tuple) else str(prompt)
