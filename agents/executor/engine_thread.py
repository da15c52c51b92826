"""The threads of an executor: one computes, some fetch, some put. What becomes of units is reported to the loop."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Protocol

from agents.engines.components.protocol import Rows as EncodedRows
from agents.engines.errors import BadBatchError
from agents.executor.encoders import Encoders, FetchedUnit, no_rows
from agents.executor.exchange import Loaded, NoRows, Rows, UnitKey, Wanted
from agents.messages.to_gateway import Failure
from agents.transfer.errors import TransferError

_log = logging.getLogger(__name__)
_FETCHING = 64
"""Units whose values are fetched at once: each of them waits for whoever makes it."""
_PUTTING = 64
"""Units whose rows are put at once: each of them waits for whoever does not take those before it. While they do, the
rows of others are given up."""


class ExecutorEvents(Protocol):
    """Called on the loop."""

    def loaded(self, loaded: Loaded) -> None: ...

    def fetched(self, wanted: Wanted, unit: FetchedUnit) -> None: ...

    def answered(self, answer: Rows | NoRows) -> None:
        """A unit needs the engine no more: its rows are there, or will not be."""

    def encoded(self, failed: Sequence[NoRows]) -> None:
        """A batch is done. Of its other units the rows are being put."""

    def is_wanted(self, key: UnitKey) -> bool:
        """Whether somebody waits for a unit; called on any thread."""

    def broke(self, error: BaseException) -> None:
        """The engine failed: nothing more will come."""


class EngineThread:
    """Make it on a running loop. Daemons: a batch that hangs does not keep the process."""

    def __init__(self, load: Callable[[], Encoders], events: ExecutorEvents, pace: float) -> None:
        """`pace`: share of the time that it may compute, where nothing else holds its node to it; up to 1."""
        self._load, self._events, self._idle_per_busy = load, events, 1 / pace - 1
        self._loop = asyncio.get_running_loop()
        self._batches: SimpleQueue[tuple[str, Sequence[tuple[Wanted, FetchedUnit]]]] = SimpleQueue()
        self._fetchers = ThreadPoolExecutor(_FETCHING, "fetch")
        self._putters = ThreadPoolExecutor(_PUTTING, "put")
        self._leaver = ThreadPoolExecutor(1, "leave")  # the others may all wait for what nobody needs any more
        self._places = threading.BoundedSemaphore(_PUTTING)
        self._encoders: Encoders | None = None
        threading.Thread(target=self._run, name="engine", daemon=True).start()

    def fetch(self, wanted: Wanted) -> None:
        """Only once it is loaded, as the other one."""
        self._fetchers.submit(self._fetch, wanted)

    def give_up(self, wanted: Wanted) -> None:
        """Nobody waits for it any more."""
        self._leaver.submit(self._leave, wanted)

    def encode(self, component: str, batch: Sequence[tuple[Wanted, FetchedUnit]]) -> None:
        self._batches.put((component, batch))

    def _run(self) -> None:
        try:
            self._encoders = encoders = self._load()
            self._report(self._events.loaded, encoders.loaded)
            while True:
                component, batch = self._batches.get()
                began_s = time.monotonic()
                made = encoders.encode(component, batch)
                done = [self._start_put(wanted, rows) for (wanted, _), rows in zip(batch, made, strict=True)]
                self._report(self._events.encoded, [failed for failed in done if failed is not None])
                time.sleep((time.monotonic() - began_s) * self._idle_per_busy)
        except BaseException as error:
            _log.exception("the engine failed")
            self._report(self._events.broke, error)

    def _start_put(self, wanted: Wanted, rows: EncodedRows | NoRows) -> NoRows | None:
        """What is to be answered now."""
        if isinstance(rows, NoRows):
            return rows
        if not self._places.acquire(blocking=False):
            return NoRows(wanted.key, Failure.OVERLOADED, f"rows of {_PUTTING} units wait for room on this node")
        self._putters.submit(self._put, wanted, rows)
        return None

    def _put(self, wanted: Wanted, rows: EncodedRows) -> None:
        assert self._encoders is not None  # noqa: S101
        try:
            if self._events.is_wanted(wanted.key):
                self._answer(wanted, self._encoders.put(wanted, rows))
        except Exception as error:
            self._report(self._events.broke, error)
        finally:
            self._places.release()

    def _fetch(self, wanted: Wanted) -> None:
        assert self._encoders is not None  # noqa: S101
        if not self._events.is_wanted(wanted.key):
            return  # it was cancelled, or its time has passed, before its turn to be fetched came
        try:
            found: FetchedUnit | Rows | NoRows = self._encoders.fetch(wanted)
        except (TransferError, BadBatchError) as error:
            found = no_rows(wanted.key, error)
        except Exception as error:
            self._report(self._events.broke, error)
            return
        if isinstance(found, FetchedUnit):
            self._report(self._events.fetched, wanted, found)
        else:
            self._answer(wanted, found)

    def _answer(self, wanted: Wanted, answer: Rows | NoRows) -> None:
        """A unit that was given up before its rows lay there had none to withdraw then."""
        if isinstance(answer, Rows) and not self._events.is_wanted(wanted.key):
            self.give_up(wanted)
        self._report(self._events.answered, answer)  # the last: from then on nobody waits for it

    def _leave(self, wanted: Wanted) -> None:
        if self._encoders is not None:
            self._encoders.give_up(wanted)

    def _report(self, event: Callable[..., None], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(event, *arguments)
        except RuntimeError:
            return  # the loop has closed: the process ends
