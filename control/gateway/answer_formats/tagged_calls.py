"""Calls of Hermes, Qwen and SmolLM, between tags: `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`."""

from control.gateway.answer_formats.held_text import HeldText
from control.gateway.answer_formats.json_call import JsonCall
from control.gateway.answer_formats.parsed import Parsed, held_back

_START, _END = "<tool_call>", "</tool_call>"


class TaggedCalls(HeldText):
    def __init__(self) -> None:
        super().__init__()
        self._call: JsonCall | None = None
        self._is_behind = False
        """Behind a call: white space to the next one, or to text, is none of the answer's."""

    @property
    def _state(self) -> object:
        return self._call

    def flush(self) -> Parsed:
        held, self._held = self._held, ""
        if self._call is None:
            is_tag = self._is_behind and _END.startswith(held.strip())
            return Parsed("" if is_tag else held)
        return self._end_call(self._call)

    def _next(self) -> Parsed:
        if self._call is not None:
            return self._go_on(self._call)
        if self._is_behind:
            self._held = self._held.lstrip().removeprefix(_END).lstrip()
            if not self._held or _END.startswith(self._held):
                return Parsed()
            self._is_behind = False
        at = self._held.find(_START)
        if at < 0:
            at = len(self._held) - held_back(self._held, _START)
            content, self._held = self._held[:at], self._held[at:]
            return Parsed(content)
        content, self._held = self._held[:at], self._held[at + len(_START) :]
        self._call = JsonCall(self._calls)
        return Parsed(content)

    def _go_on(self, call: JsonCall) -> Parsed:
        if not call.text:
            self._held = self._held.lstrip()
            if self._held and not self._held.startswith("{"):  # no call at all
                self._call = None
                return Parsed(_START)
        self._held = call.push(self._held)
        return self._end_call(call) if call.is_done else Parsed(calls=call.take_deltas())

    def _end_call(self, call: JsonCall) -> Parsed:
        self._call = None
        if not call.name:
            return Parsed(_START + call.text)
        self._calls += 1
        self._is_behind = True
        return Parsed(calls=call.take_deltas())
