"""The gateways that a scheduler serves: who is there, what they ask, and how the scheduler is."""

import asyncio
from collections import Counter
from collections.abc import Mapping
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
        """It is gone: nobody waits for its requests."""

    def beat(self) -> None:
        """At each heartbeat, before the status is told to all."""


class Gateways:
    """Make it on a running loop; it listens until closed. A status goes out on joining, when asked, at each heartbeat
    and on `tell_status`."""

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
        self._listener: Listener[ToScheduler] = Listener(bind, keys, allowed, ToScheduler, self, settings)
        self.endpoint = self._listener.endpoint
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(self._heartbeat_s, self._beat)

    def send(self, gateway: Peer, message: ToGateway) -> None:
        """A gateway that cannot be reached, or does not read, has lost its requests here; it resumes them elsewhere."""
        self._count(message)
        try:
            self._listener.send(gateway, message)
        except ChannelError as error:
            self._listener.drop(gateway, str(error))

    def tell_status(self) -> None:
        for gateway in self._listener.peers:
            self.send(gateway, self._scheduler.status)

    def close(self) -> None:
        self._timer.cancel()
        self._listener.close()

    def joined(self, peer: Peer) -> None:
        self.send(peer, self._scheduler.status)

    def left(self, peer: Peer, _reason: str) -> None:
        self._scheduler.leave(peer)

    def received(self, peer: Peer, message: ToScheduler) -> None:
        match message:
            case Generate():
                self._scheduler.submit(peer, message)
            case Cancel():
                self._scheduler.cancel(peer, message.attempt)
            case Drain():
                self._scheduler.drain()
                self.tell_status()
            case AskStatus():
                self.send(peer, self._scheduler.status)
            case AskStats():
                status, done = self._scheduler.status, self._scheduler.done
                self.send(peer, Stats(status, self._generated, self._finished, self._failed, done))

    def _count(self, message: ToGateway) -> None:
        match message:
            case Tokens():
                self._generated += sum(len(run.ids) for run in message.runs)
            case Finished():
                self._finished[message.reason] += 1
            case Failed():
                self._failed[message.failure] += 1

    def _beat(self) -> None:
        self._timer = self._loop.call_later(self._heartbeat_s, self._beat)
        self._scheduler.beat()
        self.tell_status()
