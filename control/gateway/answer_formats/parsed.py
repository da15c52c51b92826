"""What a model's text turns out to be, piece by piece."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class CallDelta:
    """Some of a call: its name once, and its arguments, JSON text, bit by bit."""

    index: int
    """Of the answer's calls."""
    name: str
    """Empty but for the first of a call."""
    arguments: str


@dataclass(frozen=True, slots=True)
class Parsed:
    content: str = ""
    reasoning: str = ""
    calls: tuple[CallDelta, ...] = ()

    def __add__(self, other: "Parsed") -> "Parsed":
        return Parsed(self.content + other.content, self.reasoning + other.reasoning, (*self.calls, *other.calls))


class AnswerParser(Protocol):
    """Reads one answer. Text that may still become the beginning of a mark is held back."""

    def push(self, text: str) -> Parsed: ...

    def flush(self) -> Parsed:
        """What was held back, at the answer's end."""


def held_back(text: str, *marks: str) -> int:
    """Length of the longest end of `text` that a mark begins with."""
    return max(
        next((n for n in range(min(len(text), len(mark) - 1), 0, -1) if text.endswith(mark[:n])), 0) for mark in marks
    )
