"""The gateways that a scheduler serves: who is there, what they ask, and how the scheduler is."""

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import msgspec

from agents.channels.errors import ChannelError
from agents.channels.keys import KeyPair
from agents.channels.listener import Listener
from agents.channels.peer import Peer
from agents.channels.settings import ChannelSettings
from agents.gateway_work import GatewayWork
from agents.messages.component_work import Encode, Encoded, Made, Make
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
from agents.messages.to_scheduler import AskPlaces, AskStats, AskStatus, Cancel, Drain, Generate, Leg, ToScheduler
from agents.tracing.spans import Span, spans_of
from agents.tracing.trace_parent import read_trace_parent
from policies.places import GRANT_S, Places
from policies.room import Room

_log = logging.getLogger(__name__)
_TELL_WORK_S = 0.02
"""What other gateways have is told no more often: each choice of a member is off by what they sent meanwhile."""


class ServesUnits(Protocol):
    """An executor of components that encode. Called on the loop."""

    def encode(self, gateway: Peer, asked: Encode) -> None: ...


class ServesMaking(Protocol):
    """An executor of a generator. Called on the loop."""

    def make(self, gateway: Peer, asked: Make) -> None: ...


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
        units: ServesUnits | None = None,
        makers: ServesMaking | None = None,
    ) -> None:
        """`allowed`: public key → name. `units`, `makers`: None where it encodes nothing, or generates nothing but
        tokens. Raises OSError when the address is taken."""
        self._scheduler, self._units, self._makers = scheduler, units, makers
        self._generated = 0
        self._finished: Counter[FinishReason] = Counter()
        self._failed: Counter[Failure] = Counter()
        self._heartbeat_s = settings.heartbeat_s
        self._room = Room()
        """As all gateways together know it."""
        self._places = Places[Peer]()
        self._work = GatewayWork[Peer]()
        self._tells_work = False
        """Whether gateways choose among its like by what waits (`late-pull-v1`): it has been sent units, or rows."""
        self._telling: asyncio.TimerHandle | None = None
        self._again: asyncio.TimerHandle | None = None
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
        self._note_done(gateway, message)
        try:
            self._listener.send(gateway, message)
        except ChannelError as error:
            self._listener.drop(gateway, str(error))

    def tell_status(self) -> None:
        status = self._scheduler.status
        self._room.tell(status.room)
        self._places.give_out(status.places or 0, self._loop.time())
        for gateway in self._listener.peers:
            self.send(gateway, self._status_for(gateway, status))

    def tell_room(self) -> None:
        """Tell gateways that there is room again, or that they have places. To be called when requests were admitted,
        prompts computed, or requests have gone."""
        if self._room.is_full and self._scheduler.status.room:
            self.tell_status()
        elif self._places.are_due:
            self._give_out()

    def _give_out(self) -> None:
        status, now_s = self._scheduler.status, self._loop.time()
        for gateway in self._places.give_out(status.places or 0, now_s):
            self.send(gateway, self._status_for(gateway, status))
        if status.places and self._again is None and self._places.is_anyone_short(now_s):
            self._again = self._loop.call_later(GRANT_S, self._give_out_again)

    def _give_out_again(self) -> None:
        self._again = None
        self.tell_room()

    def _status_for(self, gateway: Peer, status: Status) -> Status:
        own, is_shared = self._places.of(gateway), self._places.are_shared(gateway)
        others = self._work.of_others(gateway) if gateway.role == "gateway" else None
        return msgspec.structs.replace(status, places=own, is_shared=is_shared, others_units=others)

    def close(self) -> None:
        for timer in (self._timer, self._again, self._telling):
            if timer is not None:
                timer.cancel()
        self._listener.close()

    def joined(self, peer: Peer) -> None:
        if peer.role != "gateway":  # an agent, which sends no requests
            self.send(peer, self._scheduler.status)
            return
        self._places.join(peer)
        self._work.join(peer)
        status = self._scheduler.status
        self._places.give_out(status.places or 0, self._loop.time())
        self.send(peer, self._status_for(peer, status))

    def left(self, peer: Peer, _reason: str) -> None:
        for key in [key for key in self._open if key[0] == peer.connection]:
            del self._open[key]
        self._places.leave(peer)
        self._work.leave(peer)
        self._scheduler.leave(peer)

    def received(self, peer: Peer, message: ToScheduler) -> None:
        match message:
            case Generate():
                if (parent := read_trace_parent(message.trace)) is not None:
                    span = self._start_span(f"{message.leg} {message.model}", parent)
                    self._open[peer.connection, message.attempt] = _Followed(message.request, span, self._loop.time())
                    message = msgspec.structs.replace(message, trace=str(span.trace))  # stages begin theirs below it
                self._room.use()
                if message.leg is not Leg.DECODE and peer.role == "gateway":
                    self._places.use(peer)
                    units = len(message.prompt) + len(message.generated)
                    self._note_work(peer, message.attempt, units, is_told=bool(message.given))
                self._scheduler.submit(peer, message)
            case Encode() | Make():
                self._hand_on(peer, message)
            case Cancel():
                self._open.pop((peer.connection, message.attempt), None)
                self._end_work(peer, message.attempt)
                self._scheduler.cancel(peer, message.attempt)
                self.tell_room()
            case Drain():
                self._scheduler.drain()
                self.tell_status()
            case AskStatus():
                self.send(peer, self._status_for(peer, self._scheduler.status))
            case AskPlaces() if peer.role == "gateway":
                self._places.ask(peer, message.slack_s, message.calls, self._loop.time())
                self._give_out()
            case AskStats():
                status, done = self._scheduler.status, self._scheduler.done
                self.send(peer, Stats(status, self._generated, self._finished, self._failed, done))

    def _hand_on(self, peer: Peer, message: Encode | Make) -> None:
        self._room.use()
        if isinstance(message, Encode) and self._units is not None:
            self._note_work(peer, message.attempt, message.rows, is_told=True)
            self._units.encode(peer, message)
        elif isinstance(message, Make) and self._makers is not None:
            self._makers.make(peer, message)
        else:
            what = "encodes" if isinstance(message, Encode) else "generates"
            reason = f"nothing here {what} as {message.component} of {message.model} does"
            self.send(peer, Failed(message.attempt, Failure.UNKNOWN_MODEL, reason))

    def _note_work(self, gateway: Peer, attempt: int, units: int, *, is_told: bool) -> None:
        self._work.begin(gateway, attempt, units)
        self._tells_work |= is_told
        self._tell_work()

    def _note_done(self, gateway: Peer, message: ToGateway) -> None:
        """Its first token says that a prompt is computed."""
        if isinstance(message, Tokens):
            for run in message.runs:
                self._end_work(gateway, run.attempt)
        elif isinstance(message, Finished | Failed | Encoded):
            self._end_work(gateway, message.attempt)

    def _end_work(self, gateway: Peer, attempt: int) -> None:
        if self._work.end(gateway, attempt):
            self._tell_work()

    def _tell_work(self) -> None:
        """Have gateways told soon what others have; a heartbeat does where none of them chooses by it."""
        if self._tells_work and self._telling is None and self._work.is_of_several:
            self._telling = self._loop.call_later(_TELL_WORK_S, self._tell_work_now)

    def _tell_work_now(self) -> None:
        self._telling = None
        self.tell_status()

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
            case Encoded():
                self._finished[FinishReason.HANDED_OFF] += 1
            case Made(is_last=True):
                self._finished[FinishReason.STOP] += 1
            case Failed():
                self._failed[message.failure] += 1
                if message.failure is Failure.OVERLOADED:
                    self._room.refuse()

    def _beat(self) -> None:
        self._timer = self._loop.call_later(self._heartbeat_s, self._beat)
        self._scheduler.beat()
        self.tell_status()
