"""Answers of gpt-oss: messages in channels, of which the client gets the final one, the reasoning and the calls apart.

A message is `<|channel|>NAME [to=RECIPIENT] ...<|message|>TEXT<|end|>`; the next one begins with `<|start|>assistant`
(https://cookbook.openai.com/articles/openai-harmony)."""

import re

from control.gateway.answer_formats.held_text import HeldText
from control.gateway.answer_formats.parsed import CallDelta, Parsed, held_back

_MESSAGE, _START = "<|message|>", "<|start|>"
_ENDS = ("<|end|>", "<|call|>", "<|return|>", _START)
_RECIPIENT = re.compile(r"to=(?:functions\.)?([\w.\-]+)")
_CHANNEL = re.compile(r"<\|channel\|>\s*(\w+)")


class Harmony(HeldText):
    def __init__(self) -> None:
        super().__init__()
        self._header: str | None = ""
        """So far, of the message that begins; None inside one."""
        self._channel = "final"
        self._recipient = ""

    def flush(self) -> Parsed:
        held, self._held = self._held, ""
        if self._header is not None:  # a header without its message says nothing
            return Parsed("" if self._calls or "<|" in held else held)
        return self._body(held)

    def _next(self) -> Parsed:
        if self._header is None:
            return self._go_on()
        at = self._held.find(_MESSAGE)
        if at < 0:
            return Parsed()
        self._begin(self._held[:at])
        self._held = self._held[at + len(_MESSAGE) :]
        return Parsed(calls=(CallDelta(self._calls, self._recipient, ""),)) if self._recipient else Parsed()

    def _begin(self, header: str) -> None:
        channel, recipient = _CHANNEL.search(header), _RECIPIENT.search(header)
        self._header = None
        self._channel = "final" if channel is None else channel.group(1)
        self._recipient = "" if recipient is None else recipient.group(1)

    def _go_on(self) -> Parsed:
        found = [(at, mark) for mark in _ENDS if (at := self._held.find(mark)) >= 0]
        if not found:
            at = len(self._held) - held_back(self._held, *_ENDS)
            text, self._held = self._held[:at], self._held[at:]
            return self._body(text)
        at, mark = min(found)
        text, self._held = self._held[:at], self._held[at + len(mark) :]
        parsed = self._body(text)
        self._calls += bool(self._recipient)
        self._header, self._recipient = "", ""
        return parsed

    def _body(self, text: str) -> Parsed:
        if not text:
            return Parsed()
        if self._recipient:
            return Parsed(calls=(CallDelta(self._calls, "", text),))
        return Parsed(reasoning=text) if self._channel == "analysis" else Parsed(text)
