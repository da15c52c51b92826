"""A worker's end: what it shares with the others by asking the supervisor."""

import asyncio
import logging
import os
import signal
import socket
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import TypeVar

import msgspec

from agents.channels.keys import KeyPair
from agents.tracing.json_lines import log_json_lines
from control.gateway.api_error import ApiError, unavailable
from control.gateway.condition import OwnCondition
from control.gateway.counts import Counts
from control.gateway.dispatcher import Dispatcher
from control.gateway.key_limits import KeyCharge, holders_of
from control.gateway.process import BACKLOG, serve
from control.gateway.published import AccessKey
from control.gateway.readiness import Readiness
from control.gateway.workers.messages import (
    AskWhole,
    Booked,
    GiveBack,
    Listening,
    Permit,
    Ping,
    Pong,
    Refusal,
    Report,
    Serve,
    Settle,
    State,
    Take,
    ToWorker,
    Whole,
)
from control.gateway.workers.pipe import Pipe, PipeClosedError
from control.gateway.workers.totals import families_of
from control.listener import listening
from control.tls_files import tls_files
from policies.admission import Admission
from policies.fair_order import Account

_log = logging.getLogger(__name__)

DECODER: msgspec.msgpack.Decoder[ToWorker] = msgspec.msgpack.Decoder(ToWorker)
_STATE_S = 5.0
"""A worker says this often what it has counted: so much is lost with one that is killed."""
_BOOKED_S = 0.02
"""For so long the others may not know of work that is admitted here."""
_FIND_S = 5.0
"""How long a worker that replaces another looks for its instances before it takes clients."""
_LOOK_S = 0.02
_ANSWER_S = 10.0
"""Time for an answer of the supervisor, which has others to ask."""
_UNANSWERED = "The processes of this gateway do not answer each other"

Answer = TypeVar("Answer", Permit, Whole)


async def work(end: socket.socket, counts: int) -> None:
    """Serve as the supervisor says at the other end, until SIGTERM. `counts`: descriptor of what all workers count in.
    Raises OSError, BadKeyError, PepperError and TlsFilesError."""
    pipe = await Pipe.over(end, DECODER)
    order = await pipe.receive()
    if not isinstance(order, Serve):
        raise TypeError(f"the first message is no {Serve.__name__}")
    log_json_lines(worker=order.worker)
    tls = tls_files(Path(order.tls[0]), Path(order.tls[1])) if order.tls else None
    parts, key = SharedParts(pipe, order, Counts.shared(counts, order.worker)), Path(order.key)
    os.close(counts)  # it stays mapped
    try:
        await serve(parts, Path(order.table), key, KeyPair.load(key), order.settings, tls)
    finally:
        await parts.close()


class SharedParts:
    """`control.gateway.process.ProcessParts`, and the limits and the condition that it has."""

    def __init__(self, pipe: Pipe[ToWorker], order: Serve, counts: Counts) -> None:
        self.counts = counts
        self._pipe = pipe
        self._order = order
        self._own: OwnCondition | None = None
        self._admission: Admission | None = None
        self._booked: defaultdict[tuple[str, Account], float] = defaultdict(float)
        """Seconds of admitted work that the others do not know of yet."""
        self._asks = count(1)
        self._waiting: dict[int, asyncio.Future[Permit | Whole]] = {}
        self._given_up: dict[int, Callable[[Permit], None]] = {}
        """Asks whose answers nobody waits for, and what is done with a permit then."""
        self._tasks = [asyncio.create_task(each) for each in (self._hear(), self._say_state())]

    @property
    def limits(self) -> "SharedParts":
        return self

    def admission(self, max_wait_s: float) -> Admission:
        self._admission = Admission(max_wait_s, self._note_booked)
        return self._admission

    def condition(self, own: OwnCondition) -> "SharedParts":
        self._own = own
        return self

    async def listen(self, dispatcher: Dispatcher) -> socket.socket:
        if self._order.is_replacement:
            with suppress(TimeoutError):
                async with asyncio.timeout(_FIND_S):
                    while not dispatcher.has_all:
                        await asyncio.sleep(_LOOK_S)
        found = listening(self._order.host, self._order.port, BACKLOG, is_shared=True)
        self._pipe.send(Listening())
        return found

    async def close(self) -> None:
        """The counts of its whole life are sent before it ends; a second call changes nothing."""
        for task in self._tasks:
            task.cancel()
        if self._own is not None:
            self._send_state(0)
            self._own = None
        await self._pipe.close()

    async def take(self, key: AccessKey | None, tokens: float, requests: int = 1) -> KeyCharge | None:
        holders = holders_of(key)
        if not holders:  # nobody needs to be asked
            return None
        who = tuple(holder for holder, _ in holders)

        def give_back(_permit: Permit) -> None:
            for _ in range(requests):
                self.give_back(KeyCharge(who, tokens / requests, ()))

        permit = await self._asked(Permit, lambda ask: Take(ask, holders, tokens, requests), give_back)
        return KeyCharge(who, tokens, permit.headers)

    def settle(self, taken: KeyCharge, tokens: float) -> None:
        self._pipe.send(Settle(taken.holders, taken.tokens, tokens))

    def give_back(self, taken: KeyCharge) -> None:
        self._pipe.send(GiveBack(taken.holders, taken.tokens))

    async def metrics(self) -> bytes:
        return (await self._asked(Whole, AskWhole)).metrics

    async def readiness(self) -> Readiness:
        return (await self._asked(Whole, AskWhole)).readiness

    async def _asked(
        self,
        kind: type[Answer],
        ask: Callable[[int], msgspec.Struct],
        given_up: Callable[[Permit], None] | None = None,
    ) -> Answer:
        """Ask the supervisor. `given_up`: what to do with a permit that nobody waits for any more. Raises ApiError."""
        if self._pipe.is_full:  # it is stopped, or hangs: what is asked would only pile up
            raise unavailable(_UNANSWERED)
        number = next(self._asks)
        waiter = self._waiting[number] = asyncio.get_running_loop().create_future()
        self._pipe.send(ask(number))
        try:
            async with asyncio.timeout(_ANSWER_S):
                answer = await waiter
        except BaseException as error:
            if given_up is not None:
                self._give_up(number, waiter, given_up)
            if isinstance(error, TimeoutError):
                raise unavailable(_UNANSWERED) from error
            raise
        finally:
            self._waiting.pop(number, None)
        if not isinstance(answer, kind):
            raise TypeError(f"{type(answer).__name__} is no answer to that")
        return answer

    def _give_up(
        self, number: int, waiter: "asyncio.Future[Permit | Whole]", given_up: Callable[[Permit], None]
    ) -> None:
        """Its permit may be on the way, or have come in the same moment."""
        if not waiter.done() or waiter.cancelled():
            self._given_up[number] = given_up
        elif waiter.exception() is None and isinstance(permit := waiter.result(), Permit):
            given_up(permit)

    def _note_booked(self, work: str, account: Account, seconds: float) -> None:
        if not self._booked:
            self._send_booked_soon()
        self._booked[work, account] += seconds

    def _send_booked_soon(self) -> None:
        asyncio.get_running_loop().call_later(_BOOKED_S, self._send_booked)

    def _send_booked(self) -> None:
        if self._pipe.is_full:
            self._send_booked_soon()  # in one sum, once the supervisor reads on
            return
        self._pipe.send(Booked([(*kind, seconds) for kind, seconds in self._booked.items()]))
        self._booked.clear()

    async def _hear(self) -> None:
        """Take in what the supervisor sends. When it is gone this worker ends as it would by SIGTERM: nobody would
        start it again, and its port is to be free for others."""
        try:
            while True:
                self._take_in(await self._pipe.receive())
        except PipeClosedError:
            _log.error("the supervisor of this gateway is gone: its workers end, too")
            os.kill(os.getpid(), signal.SIGTERM)
        except Exception:  # requests of keys with limits would wait for answers in vain
            about = "if its files are of another release than this process, start the gateway again"
            _log.exception("what the supervisor sends is not understood, and this worker ends; %s", about)
            os.kill(os.getpid(), signal.SIGTERM)

    def _take_in(self, message: ToWorker) -> None:
        if isinstance(message, Ping):
            self._pipe.send(Pong())
        elif isinstance(message, Report):
            self._send_state(message.ask)
        elif isinstance(message, Booked):
            if self._admission is not None:
                for work, account, seconds in message.work:
                    self._admission.note(work, account, seconds, asyncio.get_running_loop().time())
        elif isinstance(message, Permit | Whole | Refusal):
            given_up = self._given_up.pop(message.ask, None)
            waiter = self._waiting.get(message.ask)
            if given_up is not None and isinstance(message, Permit):
                given_up(message)
            elif waiter is not None and not waiter.done():
                if isinstance(message, Refusal):
                    waiter.set_exception(_error(message))
                else:
                    waiter.set_result(message)

    async def _say_state(self) -> None:
        while True:
            await asyncio.sleep(_STATE_S)
            if not self._pipe.is_full:
                self._send_state(0)

    def _send_state(self, ask: int) -> None:
        if self._own is not None:
            self._pipe.send(State(ask, families_of(self._own.counted), self._own.current))


def _error(refusal: Refusal) -> ApiError:
    return ApiError(
        refusal.status,
        refusal.kind,
        refusal.message,
        code=refusal.code,
        param=refusal.param,
        headers=refusal.headers,
    )
