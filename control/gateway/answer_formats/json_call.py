"""Reads a call that is written as a JSON object with a name and arguments."""

import msgspec

from control.gateway.answer_formats.json_span import JsonSpan
from control.gateway.answer_formats.parsed import CallDelta

_ARGUMENTS = ("arguments", "parameters")
"""Names that models give them."""


class JsonCall:
    """Arguments are told as they come once the name is known, in the model's own spelling. The object may have other
    members, in any order."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.text = ""
        """All of the object so far."""
        self.name = ""
        self.is_done = False
        self._span = JsonSpan()
        self._key = ""
        self._is_value = False
        """Behind a colon of the object's own."""
        self._start = -1
        """Of the member's string, or value, that is being read; -1: none is."""
        self._arguments = ""
        self._is_text = False
        """The arguments are JSON in a string, which is read when it is whole."""
        self._told = 0
        self._is_named = False

    def push(self, text: str) -> str:
        """Take more text; return what comes behind the object's end."""
        for at, character in enumerate(text):
            self._take(character)
            if self.is_done:
                return text[at + 1 :]
        return ""

    def take_deltas(self) -> tuple[CallDelta, ...]:
        """Take what is new of the call: nothing before its name is known."""
        if not self.name:
            return ()
        arguments = self._arguments if not self._is_text else self._unwrapped()
        if self.is_done and not arguments:
            arguments = "{}"
        new, self._told = arguments[self._told :], max(self._told, len(arguments))
        if self._is_named and not new:
            return ()
        name, self._is_named = "" if self._is_named else self.name, True
        return (CallDelta(self.index, name, new),)

    def _take(self, character: str) -> None:
        span, at = self._span, len(self.text)
        was_string, was_depth = span.in_string, span.depth
        span.step(character)
        self.text += character
        is_outer = was_depth == 1 and not was_string
        if is_outer and character == ":" and not self._is_value:
            self._is_value, self._start = True, -1
            return
        if is_outer and character in ",}":
            self._end_member(at)
            self._is_value = False
        elif is_outer and self._start < 0 and not character.isspace():
            self._start = at
            self._is_text = self._is_text or (self._reads_arguments and character == '"')
        if self._reads_arguments and self._start >= 0:
            self._arguments += character
        if not self._is_value and was_string and not span.in_string and span.depth == 1:
            self._key, self._start = _string(self.text[self._start :]), -1
        self.is_done = span.is_done

    @property
    def _reads_arguments(self) -> bool:
        return self._is_value and self._key in _ARGUMENTS

    def _end_member(self, at: int) -> None:
        if self._is_value and self._key == "name" and self._start >= 0:
            self.name = _string(self.text[self._start : at].strip())
        if self._reads_arguments:
            self._arguments = self._arguments.rstrip()
        self._start = -1

    def _unwrapped(self) -> str:
        return _string(self._arguments) if self.is_done else ""


def _string(literal: str) -> str:
    """The text of a JSON string; empty for anything else."""
    try:
        return msgspec.json.decode(literal, type=str)
    except msgspec.DecodeError:
        return ""
