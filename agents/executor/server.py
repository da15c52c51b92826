"""An executor of encoders as gateways and the agent see it: a scheduler that makes rows, and no tokens."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence

from agents.channels.keys import KeyPair
from agents.channels.peer import Peer
from agents.channels.settings import ChannelSettings
from agents.engines.errors import OutOfMemoryError
from agents.executor.encoders import Encoders, FetchedUnit
from agents.executor.engine_thread import EngineThread
from agents.executor.exchange import Loaded, NoRows, Rows, UnitKey, Wanted
from agents.executor.queue import Refusal, UnitQueue
from agents.gateways import Gateways
from agents.messages.component_work import Encode, Encoded
from agents.messages.to_gateway import Failed, Failure, SchedulerState, Status, WorkDone
from agents.messages.to_scheduler import Generate

MOST_WAITING = 256
"""Units whose values it holds or fetches. More are refused: others may have room."""
_MOST_GIVEN = 4096
"""Units whose rows may still lie there untaken, and can be withdrawn; those of older ones lie until they expire."""
_REFUSED = {
    Refusal.FULL: (Failure.OVERLOADED, f"{MOST_WAITING} units wait"),
    Refusal.TOO_LARGE: (Failure.TOO_LONG, "it has more rows than a batch may have"),
    Refusal.LATE: (Failure.DEADLINE, "its turn did not come in time"),
}


class ExecutorServer:
    """Make it on a running loop. `over` is set once the engine has failed: `failure` says why then."""

    def __init__(
        self,
        bind: str,
        keys: KeyPair,
        allowed: Mapping[str, str],
        model: str,
        components: Sequence[str],
        load: Callable[[], Encoders],
        pace: float = 1.0,
        channel: ChannelSettings | None = None,
    ) -> None:
        """`allowed`: public key → name. `load`: makes the engines of `components`, on a thread of its own. Raises
        OSError when the address is taken."""
        self.failure, self.is_out_of_memory, self.over = "", False, asyncio.Event()
        self._model, self._components = model, tuple(components)
        self._state = SchedulerState.LOADING
        self._units: dict[UnitKey, tuple[Peer, Wanted]] = {}
        self._here: dict[UnitKey, FetchedUnit] = {}
        self._given: dict[UnitKey, Wanted] = {}
        self._queue: UnitQueue[UnitKey] | None = None
        self._gateways = Gateways(bind, keys, allowed, self, channel or ChannelSettings(), self)
        self.endpoint = self._gateways.endpoint
        self._thread = EngineThread(load, self, pace)

    @property
    def status(self) -> Status:
        queue = self._queue
        running, waiting, room = (0, 0, 0) if queue is None else (queue.computing, queue.waiting, queue.room)
        return Status(self._state, running, waiting, 0, 0, room=room, places=room)

    @property
    def done(self) -> WorkDone:
        return WorkDone()

    def close(self) -> None:
        self._gateways.close()

    # What gateways ask.

    def submit(self, gateway: Peer, request: Generate) -> None:
        reason = f"components {', '.join(self._components)} of {self._model} make no tokens"
        self._gateways.send(gateway, Failed(request.attempt, Failure.UNKNOWN_MODEL, reason))

    def encode(self, gateway: Peer, asked: Encode) -> None:
        key = gateway.connection, asked.attempt
        if key in self._units:
            return  # asked twice: it is answered once
        wanted = Wanted(key, asked, time.monotonic() + asked.timeout_s)
        self._units[key] = gateway, wanted
        if asked.model != self._model or asked.component not in self._components:
            self._fail(key, Failure.UNKNOWN_MODEL, f"there is no {asked.component} of {asked.model} here")
        elif self._state is not SchedulerState.READY or self._queue is None:
            self._fail(key, Failure.DRAINING, "takes no new unit")
        elif refused := self._queue.add(key, asked.component, wanted.due_s, asked.behind_s):
            self._fail(key, *_REFUSED[refused])
        else:
            self._thread.fetch(wanted)

    def cancel(self, gateway: Peer, attempt: int) -> None:
        key = gateway.connection, attempt
        if (given := self._given.pop(key, None)) is not None:
            self._thread.give_up(given)  # nobody takes its rows; where somebody has, there are none to withdraw
        self._give_up(key)

    def drain(self) -> None:
        self._state = SchedulerState.DRAINING

    def leave(self, gateway: Peer) -> None:
        for key in [key for key in self._units if key[0] == gateway.connection]:
            self._give_up(key)
        for key in [key for key in self._given if key[0] == gateway.connection]:
            del self._given[key]  # its decoder may still take them

    def beat(self) -> None:
        if self._queue is not None:
            for key in self._queue.late(time.monotonic()):
                if (found := self._give_up(key)) is not None:
                    self._gateways.send(found[0], Failed(key[1], *_REFUSED[Refusal.LATE]))

    # What the threads report.

    def loaded(self, loaded: Loaded) -> None:
        self._queue = UnitQueue(dict(loaded.limits), MOST_WAITING)
        if self._state is SchedulerState.LOADING:
            self._state = SchedulerState.READY
        self._gateways.tell_status()

    def fetched(self, wanted: Wanted, unit: FetchedUnit) -> None:
        assert self._queue is not None  # noqa: S101
        if wanted.key not in self._units:
            return  # nobody waits for it any more
        self._here[wanted.key] = unit
        if refused := self._queue.fetched(wanted.key, unit.rows, time.monotonic()):
            self._fail(wanted.key, *_REFUSED[refused])
        self._compute()

    def answered(self, answer: Rows | NoRows) -> None:
        if isinstance(answer, NoRows):
            self._fail(answer.key, answer.failure, answer.reason)
        elif (found := self._forget(answer.key)) is not None:
            message = Encoded(answer.key[1], answer.rows, answer.row_width, answer.place)
            self._given[answer.key] = found[1]
            if len(self._given) > _MOST_GIVEN:
                del self._given[next(iter(self._given))]
            self._gateways.send(found[0], message)
        self._gateways.tell_room()
        if self._state is SchedulerState.DRAINING and not self._units:
            self._gateways.tell_status()

    def encoded(self, failed: Sequence[NoRows]) -> None:
        assert self._queue is not None  # noqa: S101
        self._queue.computed()
        for each in failed:
            self.answered(each)
        self._compute()

    def is_wanted(self, key: UnitKey) -> bool:
        return key in self._units

    def broke(self, error: BaseException) -> None:
        self.failure = str(error) or type(error).__name__
        self.is_out_of_memory = isinstance(error, OutOfMemoryError | MemoryError)
        for key in tuple(self._units):
            self._fail(key, Failure.ENGINE, self.failure)
        self.over.set()

    def _compute(self) -> None:
        assert self._queue is not None  # noqa: S101
        if (batch := self._queue.batch()) is not None:
            component, keys = batch
            self._thread.encode(component, [(self._units[key][1], self._here.pop(key)) for key in keys])

    def _fail(self, key: UnitKey, failure: Failure, reason: str) -> None:
        if (found := self._forget(key)) is not None:
            self._gateways.send(found[0], Failed(key[1], failure, reason[:4096]))

    def _give_up(self, key: UnitKey) -> tuple[Peer, Wanted] | None:
        """Nobody waits for it any more: not for its values either, nor for room for its rows."""
        if (found := self._forget(key)) is not None:
            self._thread.give_up(found[1])
        return found

    def _forget(self, key: UnitKey) -> tuple[Peer, Wanted] | None:
        self._here.pop(key, None)
        if self._queue is not None:
            self._queue.cancel(key)
        return self._units.pop(key, None)
