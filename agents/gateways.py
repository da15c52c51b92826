"""The gateways that a scheduler serves: who is there, what they ask, and how the scheduler is."""

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from agents.channels.errors import ChannelError
from agents.channels.keys import KeyPair
from agents.channels.listener import Listener
from agents.channels.peer import Peer
from agents.channels.settings import ChannelSettings
from agents.messages.to_gateway import (
    Failed,
    Failure,
    Finished,
    FinishReason,
    Stats,
    Status,
    ToGateway,
    Tokens,
    WorkDone,
)
from agents.messages.to_scheduler import AskStats, AskStatus, Cancel, Drain, Generate, ToScheduler
from agents.tracing.spans import Span, spans_of
from agents.tracing.trace_parent import read_trace_parent
from policies.room import Room

_log = logging.getLogger(__name__)


class ServesGateways(Protocol):
    """A scheduler. Called on the loop."""

    @property
    def status(self) -> Status: ...

    @property
    def done(self) -> WorkDone: ...

    def submit(self, gateway: Peer, request: Generate) -> None: ...

    def cancel(self, gateway: Peer, attempt: int) -> None: ...

    def drain(self) -> None:
        """The status is told to all afterwards."""

    def leave(self, gateway: Peer) -> None:
        """Take note that a gateway is gone: nobody waits for its requests."""

    def beat(self) -> None:
        """Do what is due at each heartbeat, before the status is told to all."""


@dataclass(frozen=True, slots=True)
class _Followed:
    """A request of which a log and a trace will tell."""

    request: str
    span: Span
    began_s: float


class Gateways:
    """Make it on a running loop; it listens until closed. A status goes out on joining, when asked, at each heartbeat,
    on `tell_status`, and on `tell_room` when gateways believe that there is none."""

    def __init__(
        self,
        bind: str,
        keys: KeyPair,
        allowed: Mapping[str, str],
        scheduler: ServesGateways,
        settings: ChannelSettings,
    ) -> None:
        """`allowed`: public key → name. Raises OSError when the address is taken."""
        self._scheduler = scheduler
        self._generated = 0
        self._finished: Counter[FinishReason] = Counter()
        self._failed: Counter[Failure] = Counter()
        self._heartbeat_s = settings.heartbeat_s
        self._room = Room()
        """As all gateways together know it."""
        self._start_span = spans_of("medley-scheduler")
        self._open: dict[tuple[bytes, int], _Followed] = {}
        self._listener: Listener[ToScheduler] = Listener(bind, keys, allowed, ToScheduler, self, settings)
        self.endpoint = self._listener.endpoint
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(self._heartbeat_s, self._beat)

    def send(self, gateway: Peer, message: ToGateway) -> None:
        """A gateway that cannot be reached, or does not read, has lost its requests here; it resumes them elsewhere."""
        self._count(message)
        if isinstance(message, Finished | Failed):
            self._note_end(gateway, message)
        try:
            self._listener.send(gateway, message)
        except ChannelError as error:
            self._listener.drop(gateway, str(error))

    def tell_status(self) -> None:
        status = self._scheduler.status
        self._room.tell(status.room)
        for gateway in self._listener.peers:
            self.send(gateway, status)

    def tell_room(self) -> None:
        """Tell gateways that there is room again. To be called when requests were admitted, or have gone."""
        if self._room.is_full and self._scheduler.status.room:
            self.tell_status()

    def close(self) -> None:
        self._timer.cancel()
        self._listener.close()

    def joined(self, peer: Peer) -> None:
        self.send(peer, self._scheduler.status)

    def left(self, peer: Peer, _reason: str) -> None:
        for key in [key for key in self._open if key[0] == peer.connection]:
            del self._open[key]
        self._scheduler.leave(peer)

    def received(self, peer: Peer, message: ToScheduler) -> None:
        match message:
            case Generate():
                if (parent := read_trace_parent(message.trace)) is not None:
                    span = self._start_span(f"{message.leg} {message.model}", parent)
                    self._open[peer.connection, message.attempt] = _Followed(message.request, span, self._loop.time())
                self._room.use()
                self._scheduler.submit(peer, message)
            case Cancel():
                self._open.pop((peer.connection, message.attempt), None)
                self._scheduler.cancel(peer, message.attempt)
            case Drain():
                self._scheduler.drain()
                self.tell_status()
            case AskStatus():
                self.send(peer, self._scheduler.status)
            case AskStats():
                status, done = self._scheduler.status, self._scheduler.done
                self.send(peer, Stats(status, self._generated, self._finished, self._failed, done))

    def _note_end(self, gateway: Peer, message: Finished | Failed) -> None:
        followed = self._open.pop((gateway.connection, message.attempt), None)
        if followed is None:
            return
        status = message.reason.value if isinstance(message, Finished) else message.failure.value
        about = {"trace": followed.span.trace.trace_id, "request": followed.request, "status": status}
        seconds = round(self._loop.time() - followed.began_s, 4)
        _log.info("request done", extra={**about, "seconds": seconds})
        followed.span.end(request=followed.request, status=status)

    def _count(self, message: ToGateway) -> None:
        match message:
            case Tokens():
                self._generated += sum(len(run.ids) for run in message.runs)
            case Finished():
                self._finished[message.reason] += 1
            case Failed():
                self._failed[message.failure] += 1
                if message.failure is Failure.OVERLOADED:
                    self._room.refuse()

    def _beat(self) -> None:
        self._timer = self._loop.call_later(self._heartbeat_s, self._beat)
        self._scheduler.beat()
        self.tell_status()
