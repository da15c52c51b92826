"""Calls of Mistral's models behind `[TOOL_CALLS]`: a list of objects, or, of newer ones, `name[ARGS]{...}` for each."""

from control.gateway.answer_formats.held_text import HeldText
from control.gateway.answer_formats.json_call import JsonCall
from control.gateway.answer_formats.json_span import JsonSpan
from control.gateway.answer_formats.parsed import CallDelta, Parsed, held_back

_START, _ARGUMENTS = "[TOOL_CALLS]", "[ARGS]"
_CALL_ID = "[CALL_ID]"


class ListedCalls(HeldText):
    def __init__(self) -> None:
        super().__init__()
        self._is_list = False
        self._is_behind = False
        """Behind the start of calls."""
        self._call: JsonCall | None = None
        self._span: JsonSpan | None = None
        """Of the arguments of a call whose name comes before them."""

    @property
    def _state(self) -> object:
        return self._call, self._span

    def flush(self) -> Parsed:
        held, self._held = self._held, ""
        if self._call is not None:
            return self._end_call(self._call)
        return Parsed("" if self._is_behind else held)

    def _next(self) -> Parsed:
        if self._call is not None:
            return self._go_on(self._call)
        if self._span is not None:
            return self._take_arguments(self._span)
        if self._is_behind:
            return self._begin_call()
        at = self._held.find(_START)
        if at < 0:
            at = len(self._held) - held_back(self._held, _START)
            content, self._held = self._held[:at], self._held[at:]
            return Parsed(content)
        content, self._held, self._is_behind = self._held[:at], self._held[at + len(_START) :], True
        return Parsed(content)

    def _begin_call(self) -> Parsed:
        text = self._held.lstrip(" \n,")
        if text.startswith("[") and not text.startswith((_START, _ARGUMENTS)) and not self._is_list:
            if _START.startswith(text):
                return Parsed()
            self._is_list, self._held = True, text[1:]
        elif self._is_list and text.startswith("{"):
            self._held, self._call = text, JsonCall(self._calls)
        elif not self._is_list and "{" in text:
            name, _, _ = text.removeprefix(_START).partition("{")
            self._held, self._span = text[text.index("{") :], JsonSpan()
            name = name.partition(_ARGUMENTS)[0].partition(_CALL_ID)[0].strip()
            return Parsed(calls=(CallDelta(self._calls, name, ""),))
        return Parsed()

    def _go_on(self, call: JsonCall) -> Parsed:
        self._held = call.push(self._held)
        return self._end_call(call) if call.is_done else Parsed(calls=call.take_deltas())

    def _end_call(self, call: JsonCall) -> Parsed:
        self._call = None
        if not call.name:
            return Parsed(call.text)
        self._calls += 1
        return Parsed(calls=call.take_deltas())

    def _take_arguments(self, span: JsonSpan) -> Parsed:
        end = span.take(self._held)
        arguments, self._held = self._held[:end], self._held[end:]
        delta = CallDelta(self._calls, "", arguments)
        if span.is_done:
            self._span = None
            self._calls += 1
        return Parsed(calls=(delta,) if arguments else ())
