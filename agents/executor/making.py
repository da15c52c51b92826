"""The threads of a generator's executor: one begins answers and takes their steps. What becomes of them is reported to
the loop."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Protocol

from agents.engines.components.stepped import Piece, SteppedAnswer, SteppedEngine, SteppedFacts
from agents.engines.errors import BadBatchError, UnmadeAnswerError
from agents.executor.exchange import UnitKey
from agents.messages.component_work import Make

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Stepped:
    """What came of an answer's step."""

    key: UnitKey
    piece: Piece | None = None
    is_done: bool = False
    refused: str = ""
    """Why the component does not make it; empty: it does."""


class MakerEvents(Protocol):
    """Called on the loop."""

    def loaded(self, facts: SteppedFacts) -> None: ...

    def stepped(self, stepped: Sequence[Stepped]) -> None:
        """A step of these is computed."""

    def broke(self, error: BaseException) -> None:
        """The engine failed: nothing more will come."""


class Makers:
    """An engine with the answers that it has begun; for one thread."""

    def __init__(self, engine: SteppedEngine) -> None:
        self._engine = engine
        self._begun: dict[UnitKey, SteppedAnswer] = {}

    @property
    def facts(self) -> SteppedFacts:
        return self._engine.facts

    def step(self, asked: Mapping[UnitKey, Make]) -> list[Stepped]:
        """Take a step of each, beginning those that are not. Raises what keeps the engine from going on."""
        refused: list[Stepped] = []
        for key, make in asked.items():
            if key not in self._begun:
                try:
                    self._begun[key] = self._engine.begin(make.asked, make.skip)
                except BadBatchError as error:  # it alone is at fault
                    refused.append(Stepped(key, is_done=True, refused=str(error)))
        keys = [key for key in asked if key in self._begun]
        answers = [self._begun[key] for key in keys]
        try:
            pieces = self._engine.step(answers) if answers else []
        except UnmadeAnswerError as error:  # it is alone
            self.forget(keys)
            return [*refused, *(Stepped(key, is_done=True, refused=str(error)) for key in keys)]
        done = [answer.is_done for answer in answers]
        found = [Stepped(*each) for each in zip(keys, pieces, done, strict=True)]
        self.forget([each.key for each in found if each.is_done])
        return [*refused, *found]

    def forget(self, keys: Sequence[UnitKey]) -> None:
        for key in keys:
            self._begun.pop(key, None)


class MakerThread:
    """Make it on a running loop. A daemon: a step that hangs does not keep the process."""

    def __init__(self, load: Callable[[], SteppedEngine], events: MakerEvents, pace: float) -> None:
        """`pace`: share of the time that it may compute, where nothing else holds its node to it; up to 1."""
        self._load, self._events, self._idle_per_busy = load, events, 1 / pace - 1
        self._loop = asyncio.get_running_loop()
        self._asked: SimpleQueue[Mapping[UnitKey, Make] | UnitKey] = SimpleQueue()
        threading.Thread(target=self._run, name="engine", daemon=True).start()

    def step(self, asked: Mapping[UnitKey, Make]) -> None:
        """Only once it is loaded, and the step before is done."""
        self._asked.put(asked)

    def forget(self, key: UnitKey) -> None:
        """Nobody waits for that answer any more."""
        self._asked.put(key)

    def _run(self) -> None:
        try:
            makers = Makers(self._load())
            self._report(self._events.loaded, makers.facts)
            while True:
                asked = self._asked.get()
                if isinstance(asked, tuple):
                    makers.forget([asked])
                    continue
                began_s = time.monotonic()
                self._report(self._events.stepped, makers.step(asked))
                time.sleep((time.monotonic() - began_s) * self._idle_per_busy)
        except BaseException as error:
            _log.exception("the engine failed")
            self._report(self._events.broke, error)

    def _report(self, event: Callable[..., None], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(event, *arguments)
        except RuntimeError:
            return  # the loop has closed: the process ends
