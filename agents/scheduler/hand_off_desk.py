"""Connections of this instance with those that do the other legs of its requests, either way. None of it needs the
control plane: a gateway says with a request who the other is."""

import asyncio
from collections.abc import Callable

import msgspec

from agents.channels.keys import KeyPair
from agents.messages.kv_shape import KvShape
from agents.messages.to_kv_target import Offer, Withdraw
from agents.messages.to_scheduler import Generate, Leg, OtherLeg
from agents.messages.to_stage_scheduler import KvLinkBroken
from agents.scheduler.hand_off_events import HandOffEvents
from agents.scheduler.hand_offs import PeerMessage
from agents.scheduler.kv_sources import KvSources
from agents.scheduler.kv_target_link import KvTargetLink
from agents.scheduler.orders import Dispatch
from agents.scheduler.settings import SchedulerSettings
from agents.scheduler.workers import WorkerPlace


class HandOffDesk:
    """Make it on a running loop; it listens until closed."""

    def __init__(
        self,
        interface: str,
        keys: KeyPair,
        tell: Callable[[WorkerPlace, msgspec.Struct], None],
        events: HandOffEvents,
        settings: SchedulerSettings,
    ) -> None:
        """`interface`: this node's address on the private network. `tell`: one of our own workers.

        Raises OSError when the interface is not of this machine."""
        host = f"[{interface}]" if ":" in interface else interface
        self._keys = keys
        self._tell = tell
        self._events = events
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._sources = KvSources(f"tcp://{host}:0", keys, tell, events, settings.channel, settings.network)
        self._targets: dict[str, KvTargetLink] = {}
        self._idle_since_s: dict[str, float] = {}
        self._shape: KvShape | None = None
        self.endpoint = self._sources.endpoint

    def begin(self, shape: KvShape, rendezvous: tuple[str, int]) -> None:
        """Begin, as our own stages are ready. `rendezvous`: host and port."""
        self._shape = shape
        self._sources.begin(shape, rendezvous)
        for target in self._targets.values():
            target.begin(shape)

    def meet(self, request: Generate) -> None:
        """Make ready for the other leg. Raises ValueError or BadKeyError for an address that cannot be one."""
        if request.peer is not None and request.leg is Leg.DECODE:
            self._sources.expect(request.peer.public_key)
        elif request.peer is not None:
            self._target(request.peer)

    def say(self, word: PeerMessage) -> None:
        if isinstance(word.message, Offer | Withdraw):
            self._target(word.to).say(word.message)
        else:
            self._sources.say(word.to.public_key, word.message)

    def dispatch(self, order: Dispatch) -> None:
        self._target(order.to).dispatch(order)

    def release(self, run: int) -> None:
        """Send a run no more: its KV cache is no longer needed."""
        for target in self._targets.values():
            target.release(run)

    def link_broke(self, message: KvLinkBroken) -> None:
        for target in self._targets.values():
            target.broke(message)

    def part(self, deals_with: Callable[[str], bool]) -> None:
        """Part from those with whom there has been nothing to do for long. `deals_with`: whether there is, by key."""
        now_s = self._loop.time()
        for key in {*self._targets, *self._sources.keys}:
            if deals_with(key):
                self._idle_since_s.pop(key, None)
            elif now_s - self._idle_since_s.setdefault(key, now_s) > self._settings.pair_idle_s:
                del self._idle_since_s[key]
                self._sources.forget(key)
                target = self._targets.pop(key, None)
                if target is not None:
                    target.close()

    def close(self) -> None:
        for target in self._targets.values():
            target.close()
        self._sources.close()

    def _target(self, peer: OtherLeg) -> KvTargetLink:
        target = self._targets.get(peer.public_key)
        if target is None:
            target = KvTargetLink(peer, self._keys, self._tell, self._events, self._settings)
            self._targets[peer.public_key] = target
            if self._shape is not None:
                target.begin(self._shape)
        return target
