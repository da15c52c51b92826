"""The life of an executor on a node: when its processes are started, ended, and started again. No process, no clock.

Theory of operation. An executor is one process or several, which live and die together: once one of them has died the
others are ended, and all are started anew after a pause. The executors beside it know nothing of that.

    idle → running → broken → resting → running ...
              └────→ failed

Two things end a run of it. A death counts: each one within a window makes the next pause longer, and one too many fails
the executor for good, and its instance with it. Workers whose scheduler, on another node, is a new one (`outdated`) are
no death of theirs: they are ended and started again at once.
"""

from collections import deque
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

MOST = 4
"""Restarts within a window: what dies more often takes its instance with it."""
MOST_OF_MEMBERS = 3
"""The same of those who share a KV cache: each death holds the others up for a moment."""
WINDOW_S = 300.0
_FIRST_S, _FACTOR = 0.5, 2.0
"""Pause before the first restart, and how many times longer each further one waits."""


class LifeState(StrEnum):
    IDLE = "idle"
    """Nothing has been started yet."""
    RUNNING = "running"
    BROKEN = "broken"
    """What is left of its processes is to be ended."""
    RESTING = "resting"
    """None of its processes is left; it starts again when its pause is over."""
    FAILED = "failed"


class LifeEvent(StrEnum):
    STARTED = "started"
    DIED = "died"
    """One of its processes ended by itself, or could not be started; it may be started again."""
    DIED_ONCE_TOO_OFTEN = "died once too often"
    OUTDATED = "outdated"
    """Its workers belong to a scheduler that is not there any more."""
    ENDED = "ended"
    """All of its processes are gone."""


class Step(StrEnum):
    """What is to be done for it now."""

    START = "start"
    FOLLOW = "follow"
    """Start what is asked for now, such as the workers of a scheduler that is there by now."""
    END = "end"
    WAIT = "wait"
    """Until `ExecutorLife.due_s`."""
    NOTHING = "nothing"


S, E = LifeState, LifeEvent
TRANSITIONS: Mapping[tuple[LifeState, LifeEvent], LifeState] = MappingProxyType(
    {
        # The first order for it.
        (S.IDLE, E.STARTED): S.RUNNING,
        # Whichever process it was: the others are of no use without it.
        (S.RUNNING, E.DIED): S.BROKEN,
        # Its instance is given up; what is left of it ends with that.
        (S.RUNNING, E.DIED_ONCE_TOO_OFTEN): S.FAILED,
        (S.RUNNING, E.OUTDATED): S.BROKEN,
        (S.BROKEN, E.ENDED): S.RESTING,
        # The pause is over.
        (S.RESTING, E.STARTED): S.RUNNING,
    }
)
"""An event without an edge is of a process that falls over the first one's death, and changes nothing."""
_STEPS = {S.IDLE: Step.START, S.RUNNING: Step.FOLLOW, S.BROKEN: Step.END, S.FAILED: Step.NOTHING}


class ExecutorLife:
    """Times are monotonic seconds of the caller's."""

    def __init__(self, restarts: bool, most: int = MOST) -> None:
        """`restarts`: others of its unit go on without it, `most` times within a window; else its first death is its
        last."""
        self.state = LifeState.IDLE
        self.due_s = 0.0
        """From when on it may run (again)."""
        self.restarts, self._most = restarts, most
        self._died_s: deque[float] = deque()

    @property
    def deaths(self) -> int:
        """Return how often it died within the window that the last death ended."""
        return len(self._died_s)

    def step(self, now_s: float) -> Step:
        if self.state is LifeState.RESTING:
            return Step.START if now_s >= self.due_s else Step.WAIT
        return _STEPS[self.state]

    def started(self) -> None:
        self._take(LifeEvent.STARTED)

    def outdated(self) -> None:
        self._take(LifeEvent.OUTDATED)

    def ended(self) -> None:
        self._take(LifeEvent.ENDED)

    def died(self, now_s: float) -> None:
        if (self.state, LifeEvent.DIED) not in TRANSITIONS:
            return  # a death that is the consequence of another is not counted
        while self._died_s and now_s - self._died_s[0] > WINDOW_S:
            self._died_s.popleft()
        self._died_s.append(now_s)
        self.due_s = now_s + _FIRST_S * _FACTOR ** (self.deaths - 1)
        goes_on = self.restarts and self.deaths <= self._most
        self._take(LifeEvent.DIED if goes_on else LifeEvent.DIED_ONCE_TOO_OFTEN)

    def _take(self, event: LifeEvent) -> None:
        self.state = TRANSITIONS.get((self.state, event), self.state)
