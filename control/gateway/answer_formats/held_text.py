"""What every answer format does: hold text back until it is known what it is, and go on as far as that takes it."""

from abc import ABC, abstractmethod

from control.gateway.answer_formats.parsed import Parsed


class HeldText(ABC):
    def __init__(self) -> None:
        self._held = ""
        """Came, and is nothing yet."""
        self._calls = 0
        """That were begun before."""

    def push(self, text: str) -> Parsed:
        self._held += text
        parsed = Parsed()
        while True:
            before = self._held, self._state
            parsed += self._next()
            if (self._held, self._state) == before:
                return parsed

    @property
    def _state(self) -> object:
        """What `_next` may change beside what is held: it is asked again as long as either changes."""
        return None

    @abstractmethod
    def _next(self) -> Parsed:
        """Take what is known by now off the held text, one step at a time."""
