"""Which answers of a generator take their next step together. No socket, clock or torch.

Theory of operation. An answer takes several steps (sentences of speech, denoising steps of a picture), and any set of
answers may take one together. There is one line: the first of it take a step, and those that are not done then go

- to its end, where pieces are sent as they are made: each listener hears something soon, and what is made faster than
  it is heard waits for others;
- back to its front, where an answer is there at once: what was begun is finished first, so that no more answers than
  take a step together are held half made, and others join as soon as one is done.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from agents.executor.queue import Refusal

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class TurnLimits:
    together: int
    """Answers that take a step at once, at most."""
    waiting: int
    """Answers that are held, at most: more are refused."""
    takes_turns: bool
    """What is not done goes to the end of the line."""


class Turns(Generic[Key]):
    """Times are seconds of the caller's clock."""

    def __init__(self, limits: TurnLimits) -> None:
        self._limits = limits
        self._line: dict[Key, float] = {}
        """Who waits for a step, in order: until when somebody waits for it."""
        self._stepping: dict[Key, float] = {}
        self._is_busy = False
        """A step is computed, though nobody may wait for any of it any more."""

    @property
    def waiting(self) -> int:
        return len(self._line)

    @property
    def stepping(self) -> int:
        return len(self._stepping)

    @property
    def room(self) -> int:
        return max(0, self._limits.waiting - self.waiting - self.stepping)

    def add(self, key: Key, due_s: float) -> Refusal | None:
        """Raises ValueError for one that is there already."""
        if key in self:
            raise ValueError(f"answer {key} is there already")
        if not self.room:
            return Refusal.FULL
        self._line[key] = due_s
        return None

    def step(self) -> tuple[Key, ...]:
        """Take those that take the next step, in order. Empty: nobody waits, or a step is computed."""
        if self._is_busy or not self._line:
            return ()
        self._is_busy = True
        self._stepping = {key: self._line.pop(key) for key in list(self._line)[: self._limits.together]}
        return tuple(self._stepping)

    def stepped(self, is_done: Callable[[Key], bool]) -> None:
        """The step is computed: those that are not done, and that somebody waits for, are in line again."""
        again = {key: due_s for key, due_s in self._stepping.items() if not is_done(key)}
        self._line = self._line | again if self._limits.takes_turns else again | self._line
        self._stepping, self._is_busy = {}, False

    def cancel(self, key: Key) -> bool:
        """Forget an answer; tells whether it was there."""
        return any(jobs.pop(key, None) is not None for jobs in (self._line, self._stepping))

    def late(self, now_s: float) -> tuple[Key, ...]:
        """Give up those in line whose time is over."""
        found = tuple(key for key, due_s in self._line.items() if due_s <= now_s)
        for key in found:
            del self._line[key]
        return found

    def __contains__(self, key: object) -> bool:
        return key in self._line or key in self._stepping
