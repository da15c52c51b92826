"""The thread that vLLM runs on: takes what it is told, steps, reports to the loop."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from typing import Protocol

from agents.vllm_engine.exchange import Ask, Bring, EngineLoad, Export, Exported, HostKv, KvFacts, KvNews, Made, Told

_log = logging.getLogger(__name__)


class Engine(Protocol):
    """An engine that the thread runs; used by this thread alone."""

    @property
    def load(self) -> EngineLoad: ...

    @property
    def has_work(self) -> bool: ...

    def add(self, ask: Ask) -> None: ...

    @property
    def kv(self) -> KvFacts | str:
        """Return how its KV cache lies, or why none is handed over."""

    def abort(self, request: str) -> None:
        """End a request, or what stayed of it; nothing is done where it is not known any more."""

    def export(self, request: str) -> HostKv | None:
        """Copy the KV cache of a prefill leg that has ended; None where it has gone."""

    def bring(self, request: str, kv: HostKv) -> None:
        """Go on with a decode leg, whose KV cache this is."""

    def step(self) -> tuple[Made, ...]: ...

    def take_news(self) -> tuple[KvNews, ...]:
        """Take what has happened for hand-offs."""

    def watch(self, lost: Callable[[Exception], None]) -> None:
        """Have `lost` called, on any thread, when the engine fails between steps."""


class EngineEvents(Protocol):
    """Receiver of the engine's events. Called on the loop."""

    def loaded(self, load: EngineLoad, kv: KvFacts | str) -> None:
        """Take note that the engine is ready. `kv`: as of `Engine`."""

    def stepped(self, made: tuple[Made, ...], load: EngineLoad) -> None: ...

    def moved(self, news: tuple[KvNews, ...]) -> None:
        """Take note of what the engine has done for hand-offs."""

    def broke(self, error: BaseException) -> None:
        """Take note that the engine failed: nothing more will come."""


class EngineThread:
    """Make it on a running loop. A daemon: a step that hangs does not keep the process."""

    def __init__(self, load: Callable[[], Engine], events: EngineEvents, pace: float) -> None:
        """`pace`: share of the time that the engine may compute, where nothing else holds its node to it; up to 1."""
        self._load_engine = load
        self._idle_per_busy = 1 / pace - 1
        self._events = events
        self._loop = asyncio.get_running_loop()
        self._told: list[Told] = []
        self._changed = threading.Condition()
        self._step_began_s: float | None = None
        threading.Thread(target=self._run, name="vllm", daemon=True).start()

    @property
    def step_age_s(self) -> float:
        """Return how long the step under way has taken so far; 0 between steps."""
        began = self._step_began_s
        return 0.0 if began is None else time.monotonic() - began

    def tell(self, what: Told) -> None:
        with self._changed:
            self._told.append(what)
            self._changed.notify()

    def _run(self) -> None:
        try:
            engine = self._load_engine()
            engine.watch(lambda error: self._report(self._events.broke, error))
            self._report(self._events.loaded, engine.load, engine.kv)
            while True:
                refused = self._take_told(engine)
                made = self._step(engine)
                self._report(self._events.stepped, (*refused, *made), engine.load)
                if news := engine.take_news():
                    self._report(self._events.moved, news)
        except BaseException as error:
            _log.exception("the engine failed")
            self._report(self._events.broke, error)

    def _take_told(self, engine: Engine) -> list[Made]:
        """Waits while there is nothing to do. What vLLM does not take is answered at once."""
        with self._changed:
            self._changed.wait_for(lambda: self._told or engine.has_work)
            told, self._told = self._told, []
        refused = []
        for what in told:
            match what:
                case str():
                    engine.abort(what)
                case Bring():
                    engine.bring(what.id, what.kv)
                case Export():
                    if (kv := engine.export(what.id)) is not None:
                        self._report(self._events.moved, (Exported(what.id, kv),))
                case Ask():
                    try:
                        engine.add(what)
                    except ValueError as error:
                        refused.append(Made(what.id, (), refusal=str(error)))
        return refused

    def _step(self, engine: Engine) -> tuple[Made, ...]:
        if not engine.has_work:
            return ()
        self._step_began_s = began = time.monotonic()
        made = engine.step()
        self._step_began_s = None
        time.sleep((time.monotonic() - began) * self._idle_per_busy)
        return made

    def _report(self, event: Callable[..., None], *arguments: object) -> None:
        self._loop.call_soon_threadsafe(event, *arguments)
