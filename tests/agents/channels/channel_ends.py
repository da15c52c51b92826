"""Both ends of a channel, with recorded events that a test can wait for."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from agents.channels.address import Address
from agents.channels.dialer import Dialer
from agents.channels.keys import KeyPair
from agents.channels.listener import Listener
from agents.channels.peer import Peer
from agents.channels.settings import ChannelSettings
from agents.messages.to_gateway import ToGateway
from agents.messages.to_scheduler import ToScheduler

PATIENCE_S = 120.0
"""Of whoever waits for an event: costs nothing where it comes."""

FAST = ChannelSettings(heartbeat_s=0.05, lost_after_s=0.4, reconnect_s=0.02, reconnect_max_s=0.1, linger_s=0.05)


class Recorded:
    """What happened so far; `until` returns as soon as enough has."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()

    def note(self) -> None:
        self._changed.set()

    async def until(self, condition: Callable[[], Any], timeout_s: float = PATIENCE_S) -> None:
        async with asyncio.timeout(timeout_s):
            while not condition():
                self._changed.clear()
                await self._changed.wait()


class Heard(Recorded):
    """Events of a listener; answers to messages are up to `on_message`."""

    def __init__(self) -> None:
        super().__init__()
        self.peers: list[Peer] = []
        self.messages: list[ToScheduler] = []
        self.lost: list[str] = []
        self.on_message: Callable[[Peer, ToScheduler], None] = lambda _peer, _message: None

    def joined(self, peer: Peer) -> None:
        self.peers.append(peer)
        self.note()

    def received(self, peer: Peer, message: ToScheduler) -> None:
        self.messages.append(message)
        self.on_message(peer, message)
        self.note()

    def left(self, _peer: Peer, reason: str) -> None:
        self.lost.append(reason)
        self.note()


class Seen(Recorded):
    """Events of a dialer."""

    def __init__(self) -> None:
        super().__init__()
        self.ups = 0
        self.messages: list[ToGateway] = []
        self.downs: list[str] = []

    def up(self) -> None:
        self.ups += 1
        self.note()

    def received(self, message: ToGateway) -> None:
        self.messages.append(message)
        self.note()

    def down(self, reason: str) -> None:
        self.downs.append(reason)
        self.note()


@dataclass
class Ends:
    """A listener and whatever dials it; closes all of it."""

    settings: ChannelSettings = FAST
    server: KeyPair = field(default_factory=KeyPair.generate)
    client: KeyPair = field(default_factory=KeyPair.generate)
    heard: Heard = field(default_factory=Heard)
    opened: list[Any] = field(default_factory=list)

    def listen(self, bind: str = "tcp://127.0.0.1:0") -> Listener[ToScheduler]:
        listener: Listener[ToScheduler] = Listener(
            bind, self.server, {self.client.public: "gateway-1"}, ToScheduler, self.heard, self.settings
        )
        self.opened.append(listener)
        return listener

    def dial(
        self, endpoint: str, seen: Seen, keys: KeyPair | None = None, server_key: str | None = None, **options: Any
    ) -> Dialer[ToGateway]:
        address = Address(endpoint, server_key or self.server.public)
        options.setdefault("settings", self.settings)
        dialer: Dialer[ToGateway] = Dialer(address, keys or self.client, "gateway", ToGateway, seen, **options)
        self.opened.append(dialer)
        return dialer

    async def met(self, bind: str = "tcp://127.0.0.1:0") -> tuple[Seen, Listener[ToScheduler], Dialer[ToGateway]]:
        """A listener and a dialer that it has welcomed, and what that one sees."""
        seen, listener = Seen(), self.listen(bind)
        dialer = self.dial(listener.endpoint, seen)
        await dialer.wait_up(PATIENCE_S)
        return seen, listener, dialer

    async def __aenter__(self) -> "Ends":
        return self

    async def __aexit__(self, *_: object) -> None:
        for end in reversed(self.opened):
            end.close()
