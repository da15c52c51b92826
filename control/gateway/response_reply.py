"""Answers of /v1/responses."""

from collections.abc import Iterator
from typing import Any

import msgspec

from control.gateway.answer_formats.parsed import Parsed
from control.gateway.generation_params import Tools
from control.gateway.reply import Choice, Piece, Usage
from control.gateway.response_body import ResponseBody, ResponseTool
from control.gateway.response_items import Event, ResponseItems
from control.gateway.service_tier import ServiceTier
from control.gateway.token_logprobs import token_logprobs
from control.gateway.tokenizer import Tokenizer


class ResponseReply:
    """Renders the one answer of a request. A stream tells of every item as it comes, and of the whole at its end."""

    def __init__(
        self,
        body: ResponseBody,
        tools: Tools | None,
        id_: str,
        model: str,
        created: int,
        tokenizer: Tokenizer,
        with_usage: bool,  # noqa: ARG002 - usage is part of the whole, which always comes
        service_tier: ServiceTier | None,
        choices: int,  # noqa: ARG002 - there is one
    ) -> None:
        """`body`, `tools`: what was asked. All else is as of `MakeReply`."""
        self._tokenizer = tokenizer
        form = tokenizer.chat_template.answer_format
        is_read = form is not None and (tools is not None or form.is_constant)
        self._parser = form.parser(frozenset() if tools is None else tools.names) if form and is_read else None
        self.shows_special = form is not None and is_read and form.shows_marks
        is_parallel = tools is None or tools.is_parallel
        # Where the form of calls is not known, none is read.
        self._items = ResponseItems(str if form is None else form.call_id, is_parallel=is_parallel)
        self._told = 0
        """Events so far."""
        self._reasoning_tokens = 0
        self._status = "in_progress"
        self._head: dict[str, Any] = {
            "id": f"resp_{id_}",
            "object": "response",
            "created_at": created,
            "model": model,
            "error": None,
            "instructions": body.instructions,
            "max_output_tokens": body.max_output_tokens,
            "metadata": body.metadata or {},
            "parallel_tool_calls": is_parallel,
            "previous_response_id": None,
            "reasoning": msgspec.to_builtins(body.reasoning) if body.reasoning else None,
            "store": False,
            "temperature": body.temperature,
            "text": {"format": (body.text and body.text.format) or {"type": "text"}},
            "tool_choice": "auto" if body.tool_choice is None else msgspec.to_builtins(body.tool_choice),
            "tools": [_shown(tool) for tool in body.tools or ()],
            "top_p": body.top_p,
            "top_logprobs": body.top_logprobs,
            "truncation": "disabled",
            "background": False,
            "user": body.user,
        }
        if service_tier is not None:
            self._head["service_tier"] = service_tier

    def opening(self) -> bytes:
        kinds = ("response.created", "response.in_progress")
        return self._encoded({"type": kind, "response": self._response(None)} for kind in kinds)

    def chunk(self, piece: Piece, choice: int) -> bytes:  # noqa: ARG002 - there is one
        return self._encoded(self._read(piece))

    def end(self, choice: int, finish_reason: str) -> bytes:  # noqa: ARG002
        return self._encoded(self._finish(finish_reason))

    def closing(self, usage: Usage | None) -> bytes:
        return self._encoded([{"type": f"response.{self._status}", "response": self._response(usage)}])

    def whole(self, choices: list[Choice], usage: Usage) -> bytes:
        (only,) = choices
        for piece in only.pieces:
            for _ in self._read(piece):
                pass
        for _ in self._finish(only.finish_reason):
            pass
        return msgspec.json.encode(self._response(usage))

    def _read(self, piece: Piece) -> Iterator[Event]:
        parsed = Parsed(piece.text) if self._parser is None else self._parser.push(piece.text)
        if parsed.reasoning and not parsed.content:
            self._reasoning_tokens += len(piece.ids)
        yield from self._items.take(parsed, token_logprobs(self._tokenizer, [piece]))

    def _finish(self, finish_reason: str) -> Iterator[Event]:
        if self._parser is not None:
            yield from self._items.take(self._parser.flush(), [])
        self._status = "incomplete" if finish_reason == "length" else "completed"
        yield from self._items.end(self._status)

    def _response(self, usage: Usage | None) -> dict[str, Any]:
        reason = {"reason": "max_output_tokens"} if self._status == "incomplete" else None
        told = None if usage is None else self._usage(usage)
        state = {"status": self._status, "incomplete_details": reason, "output": self._items.items, "usage": told}
        return self._head | state

    def _usage(self, usage: Usage) -> dict[str, Any]:
        return {
            "input_tokens": usage.prompt_tokens,
            "input_tokens_details": {"cached_tokens": usage.cached_prompt_tokens},
            "output_tokens": usage.completion_tokens,
            "output_tokens_details": {"reasoning_tokens": self._reasoning_tokens},
            "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        }

    def _encoded(self, events: Any) -> bytes:
        """Named events, numbered through the stream."""
        told = []
        for each in events:
            data = msgspec.json.encode(each | {"sequence_number": self._told})
            told.append(b"event: " + each["type"].encode() + b"\ndata: " + data + b"\n\n")
            self._told += 1
        return b"".join(told)


def _shown(tool: ResponseTool) -> dict[str, Any]:
    about = {"description": tool.description, "parameters": tool.parameters, "strict": tool.strict}
    return {"type": tool.type, "name": tool.name, **about}
