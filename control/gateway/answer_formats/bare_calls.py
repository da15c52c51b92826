"""Answers of Llama 3.1 and later that are calls alone: `{"name": ..., "parameters": {...}}`, several with `;`
between, behind a tag or not."""

from collections.abc import Collection

from control.gateway.answer_formats.held_text import HeldText
from control.gateway.answer_formats.json_call import JsonCall
from control.gateway.answer_formats.parsed import Parsed

_TAG = "<|python_tag|>"


class BareCalls(HeldText):
    def __init__(self, names: Collection[str]) -> None:
        """`names`: of the tools, as JSON that names none of them is an answer like any other."""
        super().__init__()
        self._names = names
        self._call: JsonCall | None = None
        self._is_text = False

    @property
    def _state(self) -> object:
        return self._call

    def flush(self) -> Parsed:
        held, self._held = self._held, ""
        if self._call is not None:
            return self._end_call(self._call)
        return Parsed(held if self._is_text or not self._calls else "")

    def _next(self) -> Parsed:
        if self._is_text:
            content, self._held = self._held, ""
            return Parsed(content)
        if self._call is not None:
            return self._go_on(self._call)
        text = self._held.lstrip().lstrip(";, \n" if self._calls else "")
        text = text.removeprefix(_TAG).lstrip()
        if not text or _TAG.startswith(text):
            return Parsed()
        if text[0] == "{":
            self._held, self._call = text, JsonCall(self._calls)
        else:
            self._is_text = True
        return Parsed()

    def _go_on(self, call: JsonCall) -> Parsed:
        self._held = call.push(self._held)
        if call.is_done:
            return self._end_call(call)
        if not call.name:
            return Parsed()
        return Parsed(calls=call.take_deltas()) if call.name in self._names else self._end_call(call)

    def _end_call(self, call: JsonCall) -> Parsed:
        self._call = None
        if call.name not in self._names:
            self._is_text = True
            return Parsed(call.text)
        self._calls += 1
        return Parsed(calls=call.take_deltas())
