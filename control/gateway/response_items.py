"""Items of a response, made of its text as that comes, and what a stream tells of each."""

import secrets
from collections.abc import Callable, Iterator
from typing import Any

from control.gateway.answer_formats.parsed import CallDelta, Parsed

Event = dict[str, Any]


class ResponseItems:
    """Reasoning, a message, and calls, in the order in which the model writes them; one is open at a time."""

    def __init__(self, call_id: Callable[[], str], *, is_parallel: bool) -> None:
        """`call_id`: makes the id of a call, in the form that the model's template takes."""
        self._call_id = call_id
        self._is_parallel = is_parallel
        self._calls = 0
        self._untold: list[dict[str, Any]] = []
        """Log-probabilities of tokens whose text is to come."""
        self._is_open = False
        self.items: list[dict[str, Any]] = []

    def take(self, parsed: Parsed, logprobs: list[dict[str, Any]]) -> Iterator[Event]:
        """Yield the events of what was read. `logprobs`: of its tokens, told with the text of a message."""
        self._untold += logprobs
        if parsed.reasoning:
            self._untold = []
            yield from self._text("reasoning", parsed.reasoning, [])
        if parsed.content:
            told, self._untold = self._untold, []
            yield from self._text("message", parsed.content, told)
        if parsed.calls:
            self._untold = []  # of the call: its text is no message's
        for delta in parsed.calls:
            if self._is_parallel or not delta.index:
                yield from self._call(delta)

    def end(self, status: str) -> Iterator[Event]:
        """Yield the end of the last item; an answer without any is an empty message."""
        if not self.items:
            yield from self._begin(_message())
        yield from self._close(status)

    def _text(self, kind: str, text: str, logprobs: list[dict[str, Any]]) -> Iterator[Event]:
        if not self._is_open or self.items[-1]["type"] != kind:
            yield from self._close("completed")
            yield from self._begin(_message() if kind == "message" else _reasoning())
        part = self.items[-1]["content"][0]
        part["text"] += text
        more = {}
        if kind == "message":
            part["logprobs"] += logprobs
            more = {"logprobs": logprobs}
        yield self._of_part(f"response.{part['type']}.delta") | {"delta": text} | more

    def _call(self, delta: CallDelta) -> Iterator[Event]:
        if delta.index == self._calls:
            self._calls += 1
            yield from self._close("completed")
            call = {"type": "function_call", "id": _id("fc"), "call_id": self._call_id(), "name": delta.name}
            yield from self._begin(call | {"arguments": "", "status": "in_progress"})
        self.items[-1]["arguments"] += delta.arguments
        if delta.arguments:
            yield self._of_item("response.function_call_arguments.delta") | {"delta": delta.arguments}

    def _begin(self, item: dict[str, Any]) -> Iterator[Event]:
        parts = item.get("content", [])
        self._is_open = True
        self.items.append(item)
        shown = item if not parts else item | {"content": []}
        yield {"type": "response.output_item.added", "output_index": len(self.items) - 1, "item": {**shown}}
        for part in parts:
            yield self._of_part("response.content_part.added") | {"part": {**part}}

    def _close(self, status: str) -> Iterator[Event]:
        if not self._is_open:
            return
        self._is_open = False
        item = self.items[-1]
        item["status"] = status
        if item["type"] == "function_call":
            done = {"arguments": item["arguments"], "name": item["name"]}
            yield self._of_item("response.function_call_arguments.done") | done
        for part in item.get("content", ()):
            more = {"logprobs": part["logprobs"]} if "logprobs" in part else {}
            yield self._of_part(f"response.{part['type']}.done") | {"text": part["text"]} | more
            yield self._of_part("response.content_part.done") | {"part": part}
        yield {"type": "response.output_item.done", "output_index": len(self.items) - 1, "item": item}

    def _of_item(self, kind: str) -> Event:
        return {"type": kind, "item_id": self.items[-1]["id"], "output_index": len(self.items) - 1}

    def _of_part(self, kind: str) -> Event:
        return self._of_item(kind) | {"content_index": 0}


def _message() -> dict[str, Any]:
    part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    return {"type": "message", "id": _id("msg"), "role": "assistant", "status": "in_progress", "content": [part]}


def _reasoning() -> dict[str, Any]:
    part = {"type": "reasoning_text", "text": ""}
    return {"type": "reasoning", "id": _id("rs"), "summary": [], "status": "in_progress", "content": [part]}


def _id(kind: str) -> str:
    return f"{kind}_{secrets.token_hex(12)}"
