"""Output of `medley up` while it starts: one line a step, with the time it took."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass


@dataclass(slots=True)
class StepResult:
    text: str = ""


class Steps:
    """`say` writes a line for people."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._began_s = time.monotonic()

    def say(self, line: str) -> None:
        """Write a line; a terminal that was closed neither stops what serves nor what ends it."""
        with suppress(OSError):
            self._say(line)

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._began_s

    @contextmanager
    def step(self, name: str) -> Iterator[StepResult]:
        """Write a line when the step is done, with what the caller has put into the result."""
        result, began_s = StepResult(), time.monotonic()
        yield result
        self.say(f"{name:<10} {result.text:<70} {time.monotonic() - began_s:6.1f} s")
