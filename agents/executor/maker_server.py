"""An executor of a generator as gateways and the agent see it: a scheduler that makes sound or pictures, no tokens."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from agents.channels.keys import KeyPair
from agents.channels.peer import Peer
from agents.channels.settings import ChannelSettings
from agents.engines.components.stepped import SteppedEngine, SteppedFacts
from agents.engines.errors import OutOfMemoryError
from agents.executor.exchange import UnitKey
from agents.executor.making import MakerThread, Stepped
from agents.executor.queue import Refusal
from agents.executor.turns import TurnLimits, Turns
from agents.gateways import Gateways
from agents.messages.bounds import MAX_PIECE_BYTES
from agents.messages.component_work import Made, Make
from agents.messages.to_gateway import Failed, Failure, SchedulerState, Status, WorkDone
from agents.messages.to_scheduler import Generate

MOST_HELD = 64
"""Answers that it holds. More are refused: others may have room."""
_REFUSED = {
    Refusal.FULL: (Failure.OVERLOADED, f"{MOST_HELD} answers wait"),
    Refusal.LATE: (Failure.DEADLINE, "its turn did not come in time"),
}


class MakerServer:
    """Make it on a running loop. `over` is set once the engine has failed: `failure` says why then."""

    def __init__(
        self,
        bind: str,
        keys: KeyPair,
        allowed: Mapping[str, str],
        model: str,
        component: str,
        load: Callable[[], SteppedEngine],
        pace: float = 1.0,
        channel: ChannelSettings | None = None,
    ) -> None:
        """`allowed`: public key → name. `load`: makes the engine of `component`, on a thread of its own. Raises OSError
        when the address is taken."""
        self.failure, self.is_out_of_memory, self.over = "", False, asyncio.Event()
        self._model, self._component = model, component
        self._state = SchedulerState.LOADING
        self._answers: dict[UnitKey, tuple[Peer, Make]] = {}
        self._pieces: Counter[UnitKey] = Counter()
        self._turns: Turns[UnitKey] | None = None
        self._gateways = Gateways(bind, keys, allowed, self, channel or ChannelSettings(), makers=self)
        self.endpoint = self._gateways.endpoint
        self._thread = MakerThread(load, self, pace)

    @property
    def status(self) -> Status:
        turns = self._turns
        running, waiting, room = (0, 0, 0) if turns is None else (turns.stepping, turns.waiting, turns.room)
        return Status(self._state, running, waiting, 0, 0, room=room, places=room)

    @property
    def done(self) -> WorkDone:
        return WorkDone()

    def close(self) -> None:
        self._gateways.close()

    # What gateways ask.

    def submit(self, gateway: Peer, request: Generate) -> None:
        reason = f"component {self._component} of {self._model} makes no tokens"
        self._gateways.send(gateway, Failed(request.attempt, Failure.UNKNOWN_MODEL, reason))

    def make(self, gateway: Peer, asked: Make) -> None:
        key = gateway.connection, asked.attempt
        if key in self._answers:
            return  # asked twice: it is answered once
        self._answers[key] = gateway, asked
        if (asked.model, asked.component) != (self._model, self._component):
            self._fail(key, Failure.UNKNOWN_MODEL, f"there is no {asked.component} of {asked.model} here")
        elif self._state is not SchedulerState.READY or self._turns is None:
            self._fail(key, Failure.DRAINING, "takes no new request")
        elif refused := self._turns.add(key, time.monotonic() + asked.timeout_s):
            self._fail(key, *_REFUSED[refused])
        else:
            self._step()

    def cancel(self, gateway: Peer, attempt: int) -> None:
        self._give_up((gateway.connection, attempt))

    def drain(self) -> None:
        self._state = SchedulerState.DRAINING

    def leave(self, gateway: Peer) -> None:
        for key in [key for key in self._answers if key[0] == gateway.connection]:
            self._give_up(key)

    def beat(self) -> None:
        if self._turns is not None:
            for key in self._turns.late(time.monotonic()):
                self._thread.forget(key)
                self._fail(key, *_REFUSED[Refusal.LATE])

    # What the thread reports.

    def loaded(self, facts: SteppedFacts) -> None:
        self._turns = Turns(TurnLimits(facts.most_units, MOST_HELD, facts.is_heard))
        if self._state is SchedulerState.LOADING:
            self._state = SchedulerState.READY
        self._gateways.tell_status()

    def stepped(self, stepped: Sequence[Stepped]) -> None:
        assert self._turns is not None  # noqa: S101
        done = {each.key for each in stepped if each.is_done}
        self._turns.stepped(done.__contains__)
        for each in stepped:
            self._answer(each)
        self._step()  # the next one is computed while others are told
        self._gateways.tell_room()
        if self._state is SchedulerState.DRAINING and not self._answers:
            self._gateways.tell_status()

    def broke(self, error: BaseException) -> None:
        self.failure = str(error) or type(error).__name__
        self.is_out_of_memory = isinstance(error, OutOfMemoryError | MemoryError)
        for key in tuple(self._answers):
            self._fail(key, Failure.ENGINE, self.failure)
        self.over.set()

    def _answer(self, stepped: Stepped) -> None:
        key, piece = stepped.key, stepped.piece
        if key not in self._answers:
            return  # nobody waits for it any more
        if stepped.refused:
            self._fail(key, Failure.UNSUPPORTED, stepped.refused)
            return
        if piece is not None and len(piece.data) > MAX_PIECE_BYTES:
            # A gateway would take it for a broken message, and have another executor make the same again.
            reason = f"a piece of the answer has {len(piece.data)} bytes, more than {MAX_PIECE_BYTES}: ask for less"
            self._thread.forget(key)
            self._fail(key, Failure.UNSUPPORTED, reason)
            return
        gateway, asked = self._answers[key]
        if piece is not None:
            number = asked.skip + self._pieces[key]
            self._pieces[key] += 1
            made = Made(key[1], number, piece.data, piece.units, stepped.is_done, piece.samples_per_s)
            self._gateways.send(gateway, made)
        if stepped.is_done:
            self._forget(key)

    def _step(self) -> None:
        assert self._turns is not None  # noqa: S101
        if keys := self._turns.step():
            self._thread.step({key: self._answers[key][1] for key in keys})

    def _fail(self, key: UnitKey, failure: Failure, reason: str) -> None:
        if (found := self._forget(key)) is not None:
            self._gateways.send(found[0], Failed(key[1], failure, reason[:4096]))

    def _give_up(self, key: UnitKey) -> None:
        if self._forget(key) is not None:
            self._thread.forget(key)

    def _forget(self, key: UnitKey) -> tuple[Peer, Make] | None:
        self._pieces.pop(key, None)
        if self._turns is not None:
            self._turns.cancel(key)
        return self._answers.pop(key, None)
