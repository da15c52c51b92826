"""Answers of /v1/chat/completions whose text is more than content: calls of tools, and reasoning."""

from typing import Any

import msgspec

from control.gateway.answer_formats.formats import AnswerFormat
from control.gateway.answer_formats.parsed import CallDelta, Parsed
from control.gateway.chat_reply import ChatReply
from control.gateway.generation_params import Tools
from control.gateway.reply import Choice, Piece, Reply, Usage, event, joined
from control.gateway.service_tier import ServiceTier
from control.gateway.tokenizer import Tokenizer


def chat_reply(
    tools: Tools | None,
    id_: str,
    model: str,
    created: int,
    tokenizer: Tokenizer,
    with_usage: bool,
    service_tier: ServiceTier | None,
    choices: int,
) -> Reply:
    """Text as it is, or read as the model writes it where there are `tools`, or where it always writes so."""
    plain = ChatReply(id_, model, created, tokenizer, with_usage, service_tier, choices)
    form = tokenizer.chat_template.answer_format
    return plain if form is None or not (tools or form.is_constant) else ParsedChatReply(plain, form, tools, choices)


class _Calls:
    """Calls of one answer."""

    def __init__(self, form: AnswerFormat, is_parallel: bool) -> None:
        self._form = form
        self._is_parallel = is_parallel
        self.whole: list[dict[str, Any]] = []

    def take(self, deltas: tuple[CallDelta, ...]) -> list[dict[str, Any]]:
        """Deltas as the API has them: id, type and name with the first of a call."""
        told = []
        for delta in deltas:
            if delta.index and not self._is_parallel:
                continue
            function = {"arguments": delta.arguments}
            if delta.index == len(self.whole):
                function = {"name": delta.name, **function}
                self.whole.append({"id": self._form.call_id(), "type": "function", "function": {**function}})
                told.append({"index": delta.index, **self.whole[-1], "function": function})
            else:
                self.whole[delta.index]["function"]["arguments"] += delta.arguments
                told.append({"index": delta.index, "function": function})
        return told


class ParsedChatReply:
    def __init__(self, plain: ChatReply, form: AnswerFormat, tools: Tools | None, choices: int) -> None:
        self._plain = plain
        self.shows_special = form.shows_marks
        names = frozenset[str]() if tools is None else tools.names
        self._parsers = [form.parser(names) for _ in range(choices)]
        self._calls = [_Calls(form, tools is None or tools.is_parallel) for _ in range(choices)]

    def opening(self) -> bytes:
        return self._plain.opening()

    def chunk(self, piece: Piece, choice: int) -> bytes:
        return self._events(self._parsers[choice].push(piece.text), choice, piece)

    def end(self, choice: int, finish_reason: str) -> bytes:
        last = self._events(self._parsers[choice].flush(), choice, Piece(""))
        return last + self._plain.end(choice, self._reason(choice, finish_reason))

    def closing(self, usage: Usage | None) -> bytes:
        return self._plain.closing(usage)

    def whole(self, choices: list[Choice], usage: Usage) -> bytes:
        messages = []
        for number, one in enumerate(choices):
            parser, calls = self._parsers[number], self._calls[number]
            parsed = parser.push(joined(one.pieces).text) + parser.flush()
            calls.take(parsed.calls)
            message: dict[str, Any] = {"role": "assistant", "content": parsed.content or None, "refusal": None}
            if not calls.whole:
                message["content"] = parsed.content
            else:
                message["tool_calls"] = calls.whole
            if parsed.reasoning:
                message["reasoning"] = parsed.reasoning
            messages.append(message)
        reasons = [self._reason(number, one.finish_reason) for number, one in enumerate(choices)]
        return msgspec.json.encode(self._plain.answer(messages, choices, reasons, usage))

    def _events(self, parsed: Parsed, choice: int, piece: Piece) -> bytes:
        deltas: list[dict[str, Any]] = []
        if parsed.reasoning:
            deltas.append({"reasoning": parsed.reasoning})
        if parsed.content:
            deltas.append({"content": parsed.content})
        calls = self._calls[choice].take(parsed.calls)
        if calls:
            deltas.append({"tool_calls": calls})
        if piece.logprobs and not deltas:
            deltas.append({})
        logprobs = self._plain.logprobs([piece]) if piece.logprobs else None
        events = (self._plain.event(delta, choice, None if n else logprobs) for n, delta in enumerate(deltas))
        return b"".join(map(event, events))

    def _reason(self, choice: int, finish_reason: str) -> str:
        return "tool_calls" if finish_reason == "stop" and self._calls[choice].whole else finish_reason
