"""Instances that hand KV cache to this one: whoever a gateway has named, by key, may offer some, and nothing else."""

import asyncio
import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from agents.channels.address import check_key
from agents.channels.errors import ChannelError
from agents.channels.keys import KeyPair
from agents.channels.listener import Listener
from agents.channels.peer import Peer
from agents.channels.settings import ChannelSettings
from agents.messages.kv_shape import KvShape
from agents.messages.to_kv_source import KvTarget
from agents.messages.to_kv_target import KvSource, OpenLink, ToKvTarget
from agents.messages.to_stage import CloseKvLink, OpenKvLink
from agents.scheduler.hand_off_events import HandOffEvents
from agents.scheduler.kv_overlap import has_place, mismatch
from agents.scheduler.workers import WorkerPlace

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Source:
    pair: str = field(default_factory=lambda: secrets.token_hex(8))
    """Names the links: nobody but the two instances knows it."""
    peer: Peer | None = None
    """Its connection, while there is one."""
    shape: KvShape | None = None
    links: dict[str, WorkerPlace] = field(default_factory=dict)
    """Our worker, by link."""
    give_up: asyncio.TimerHandle | None = None


class KvSources:
    """Make it on a running loop; it listens until closed."""

    def __init__(
        self,
        bind: str,
        keys: KeyPair,
        tell: Callable[[WorkerPlace, msgspec.Struct], None],
        events: HandOffEvents,
        settings: ChannelSettings,
        network: str = "",
    ) -> None:
        """`tell`: one of our own workers. `network`: that our nodes are in; empty: nobody said.

        Raises OSError when the address is taken."""
        self._rendezvous: tuple[str, int] | None = None
        self._tell = tell
        self._events = events
        self._settings = settings
        self._network = network
        self._loop = asyncio.get_running_loop()
        self._shape: KvShape | None = None
        self._sources: dict[str, _Source] = {}
        self._listener: Listener[ToKvTarget] = Listener(bind, keys, {}, ToKvTarget, self, settings)
        self.endpoint = self._listener.endpoint

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(self._sources)

    def begin(self, shape: KvShape, rendezvous: tuple[str, int]) -> None:
        """Answer who has asked, as our own stages are ready. `rendezvous`: host and port."""
        self._shape, self._rendezvous = shape, rendezvous
        for key in self._sources:
            self._answer(key)

    def expect(self, key: str) -> None:
        """Let the owner of that key in. Raises BadKeyError for what can be no key."""
        if key not in self._sources:
            self._sources[check_key(key, "public key of the prefill leg")] = _Source()
            self._admit()

    def forget(self, key: str) -> None:
        """Take nothing from there any more."""
        source = self._sources.pop(key, None)
        if source is not None:
            self._stop_waiting(source)
            self._close_links(source)
            self._admit()

    def say(self, key: str, message: msgspec.Struct) -> None:
        """Send a message; it is lost where the connection is, and the other instance asks again."""
        source = self._sources.get(key)
        if source is None or source.peer is None:
            return
        try:
            self._listener.send(source.peer, message)
        except ChannelError as error:
            self._listener.drop(source.peer, str(error))

    def close(self) -> None:
        for source in self._sources.values():
            self._stop_waiting(source)
        self._listener.close()

    def joined(self, peer: Peer) -> None:
        source = self._sources.get(peer.name)
        if source is not None:
            self._stop_waiting(source)
            source.peer = peer

    def left(self, peer: Peer, reason: str) -> None:
        source = self._sources.get(peer.name)
        if source is not None and source.peer == peer:
            source.peer = None
            self._stop_waiting(source)
            source.give_up = self._loop.call_later(self._settings.lost_after_s, self._lose, peer.name, reason)

    def received(self, peer: Peer, message: ToKvTarget) -> None:
        source = self._sources.get(peer.name)
        if source is None:
            return
        match message:
            case KvSource():
                source.shape = message.shape
                self._answer(peer.name)
            case OpenLink():
                self._open(source, message)
            case _:
                self._events.heard_source(peer.name, message)

    def _answer(self, key: str) -> None:
        source = self._sources[key]
        if self._shape is None or self._rendezvous is None or source.shape is None:
            return
        reason = mismatch(source.shape, self._shape)
        if reason:
            _log.error("%s cannot hand KV cache to us: %s", key, reason)
        self.say(
            key,
            KvTarget(self._shape, source.pair, *self._rendezvous, streams=True, network=self._network, encrypts=True),
        )

    def _open(self, source: _Source, order: OpenLink) -> None:
        mine, theirs, at = self._shape, source.shape, self._rendezvous
        place = WorkerPlace(order.target_stage, order.target_node, order.target_part)
        other = WorkerPlace(order.stage, order.node, order.part)
        if mine is None or theirs is None or at is None or not (has_place(mine, place) and has_place(theirs, other)):
            _log.error("asked for a link from %s to %s, one of which is not there", other.label, place.label)
            return
        name = f"{source.pair}/{other.label}-{place.label}"
        source.links[name] = place
        self._tell(place, OpenKvLink(name, order.epoch, False, *at, theirs.dtype, order.secret))

    def _lose(self, key: str, reason: str) -> None:
        source = self._sources.get(key)
        if source is not None:
            source.give_up = None
            self._close_links(source)
            self._events.peer_lost(key, f"the prefill instance is out of reach: {reason}")

    def _close_links(self, source: _Source) -> None:
        for name, place in source.links.items():
            self._tell(place, CloseKvLink(name))
        source.links.clear()

    def _admit(self) -> None:
        self._listener.allow({key: key for key in self._sources})

    @staticmethod
    def _stop_waiting(source: _Source) -> None:
        if source.give_up is not None:
            source.give_up.cancel()
            source.give_up = None
