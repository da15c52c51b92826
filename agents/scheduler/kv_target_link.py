"""The way from this instance's KV cache to that of one other: a channel to its scheduler, links between their workers.

A link is made when something is first to go over it, and anew whenever it breaks. Its name is the pair's and the places
of its two workers.
"""

import asyncio
import logging
import secrets
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from agents.channels.address import Address
from agents.channels.dialer import Dialer
from agents.channels.errors import ChannelError
from agents.channels.keys import KeyPair
from agents.messages.kv_shape import KvShape
from agents.messages.to_kv_source import KvTarget, ToKvSource
from agents.messages.to_kv_target import KvSource, OpenLink
from agents.messages.to_scheduler import OtherLeg
from agents.messages.to_stage import CloseKvLink, OpenKvLink, SendKv
from agents.messages.to_stage_scheduler import KvLinkBroken
from agents.scheduler.hand_off_events import HandOffEvents
from agents.scheduler.hand_offs import is_early
from agents.scheduler.kv_overlap import has_peers, mismatch, overlaps
from agents.scheduler.orders import Dispatch
from agents.scheduler.private_network import leaves_network
from agents.scheduler.settings import SchedulerSettings
from agents.scheduler.workers import WorkerPlace

_log = logging.getLogger(__name__)
_SECRET_BYTES = 32


@dataclass(slots=True)
class _Link:
    source: WorkerPlace
    target: WorkerPlace
    epoch: int = field(default_factory=lambda: secrets.randbits(40))
    """Ends of a link meet under its name and epoch, and no two of its connections may have the same: also where we
    have forgotten the pair and the other side has not."""
    is_open: bool = False
    """Both ends have been told to connect."""
    failures: int = 0
    """In a row, without anything getting through."""
    runs: set[int] = field(default_factory=set)
    """That go over it."""


class KvTargetLink:
    """Make it on a running loop; it dials until closed."""

    def __init__(
        self,
        peer: OtherLeg,
        keys: KeyPair,
        tell: Callable[[WorkerPlace, msgspec.Struct], None],
        events: HandOffEvents,
        settings: SchedulerSettings,
    ) -> None:
        """`tell`: one of our own workers. Raises ValueError or BadKeyError for an address that cannot be one."""
        self.key = peer.public_key
        self._instance = peer.instance
        self._tell = tell
        self._events = events
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._shape: KvShape | None = None
        self._target: KvTarget | None = None
        self._unfit = ""
        """Why no KV cache can go there; empty when it can."""
        self._unsaid: deque[msgspec.Struct] = deque()
        self._links: dict[str, _Link] = {}
        self._give_up: asyncio.TimerHandle | None = None
        address = Address(peer.endpoint, peer.public_key)
        self._dialer: Dialer[ToKvSource] = Dialer(address, keys, "prefill", ToKvSource, self, settings.channel)

    def begin(self, shape: KvShape) -> None:
        """Greet the other instance, as our own stages are ready."""
        self._shape = shape
        self._greet()

    def say(self, message: msgspec.Struct) -> None:
        """Send now, or once it can be; what is still unsent when the peer is given up is forgotten."""
        self._unsaid.append(message)
        self._flush()

    def dispatch(self, order: Dispatch) -> None:
        """Have our workers send a run to theirs."""
        if self._target is None or self._shape is None or not has_peers(self._target.shape, order.target_nodes):
            self._events.hand_off_stuck({order.run}, f"{self._instance} accepts for another pipeline than it has")
            return
        for overlap in overlaps(self._shape, order.nodes, self._target.shape, order.target_nodes):
            name = self._open(overlap.source, overlap.target)
            self._links[name].runs.add(order.run)
            kept = (order.tokens, overlap.first_layer, overlap.layers)
            self._tell(overlap.source, SendKv(name, order.run, order.target_run, *kept))

    def release(self, run: int) -> None:
        for link in self._links.values():
            link.runs.discard(run)

    def broke(self, message: KvLinkBroken) -> None:
        """Connect it anew, unless it has been tried too often; nothing for links of other pairs, or of before."""
        link = self._links.get(message.link)
        if link is None or link.epoch != message.epoch:
            return
        link.failures = 1 if message.has_progressed else link.failures + 1
        link.is_open = False
        if link.failures < self._settings.link_tries:
            self._connect(message.link, link)
            return
        _log.error("link %s to %s is given up: %s", message.link, self._instance, message.reason)
        runs, link.runs, link.failures = link.runs, set(), 0
        self._tell(link.source, CloseKvLink(message.link))
        self._events.hand_off_stuck(runs, f"no KV cache gets to {self._instance}: {message.reason}")

    def close(self) -> None:
        self._stop_waiting()
        self._dialer.close()
        self._drop_links()

    def up(self) -> None:
        self._greet()

    def received(self, message: ToKvSource) -> None:
        if not isinstance(message, KvTarget):
            self._events.heard_target(self.key, message)
            return
        self._stop_waiting()
        self._unfit = ("" if self._shape is None else mismatch(self._shape, message.shape)) or self._in_the_clear(
            message
        )
        if self._unfit:
            self._lose()
            return
        if self._target is not None and self._target.pair != message.pair:
            self._drop_links()  # it started over
        is_back = self._target is not None
        self._target = message
        for name, link in self._links.items():
            if not link.is_open and link.runs:
                self._connect(name, link)
        self._flush()
        if is_back:
            self._events.peer_back(self.key)

    def down(self, reason: str) -> None:
        self._wait()
        _log.warning("%s, which takes our KV cache, is out of reach: %s", self._instance, reason)

    @property
    def _is_met(self) -> bool:
        """Tell whether it knows us, and we it, on this connection."""
        return self._dialer.is_up and self._target is not None and self._give_up is None

    def _greet(self) -> None:
        if self._dialer.is_up and self._shape is not None:
            self._wait()
            self._send(KvSource(self._shape))

    def _wait(self) -> None:
        """Wait for an answer, but not for long."""
        if self._give_up is None:
            self._give_up = self._loop.call_later(self._settings.channel.lost_after_s, self._lose)

    def _stop_waiting(self) -> None:
        if self._give_up is not None:
            self._give_up.cancel()
            self._give_up = None

    def _lose(self) -> None:
        self._give_up = None
        self._unsaid.clear()
        reason = self._unfit or str(self._dialer.refusal or f"{self._instance} is out of reach")
        self._events.peer_lost(self.key, reason)

    def _flush(self) -> None:
        if self._unfit and self._unsaid:
            self._loop.call_soon(self._lose)
        elif not self._is_met:
            self._wait()
        else:
            while self._unsaid and (not self._is_told(self._unsaid[0]) or self._send(self._unsaid[0])):
                self._unsaid.popleft()

    def _is_told(self, message: msgspec.Struct) -> bool:
        """Tell whether the other instance is to hear this: of the previous version, it knows of no early offers."""
        return self._target is None or self._target.streams or not is_early(message)

    def _send(self, message: msgspec.Struct) -> bool:
        try:
            self._dialer.send(message)
        except ChannelError as error:
            _log.warning("%s cannot be told: %s", self._instance, error)
            return False
        return True

    def _open(self, source: WorkerPlace, target: WorkerPlace) -> str:
        pair = self._target.pair if self._target else ""
        name = f"{pair}/{source.label}-{target.label}"
        link = self._links.setdefault(name, _Link(source, target))
        if not link.is_open:
            self._connect(name, link)
        return name

    def _connect(self, name: str, link: _Link) -> None:
        """Connect both ends; where their scheduler is out of reach, once it is back."""
        if self._target is None or self._shape is None or not self._is_met:
            return
        link.epoch += 1
        link.is_open = True
        source, target = link.source, link.target
        at_both = (source.stage, source.node, target.stage, target.node, link.epoch, source.part, target.part)
        # Over channels that are encrypted and know whom they lead to; each connection has a secret of its own.
        secret = secrets.token_hex(_SECRET_BYTES) if self._leaves(self._target) else ""
        self.say(OpenLink(*at_both, secret))
        at = (self._target.rendezvous_host, self._target.rendezvous_port)
        self._tell(source, OpenKvLink(name, link.epoch, True, *at, self._shape.dtype, secret))

    def _leaves(self, target: KvTarget) -> bool:
        return leaves_network(self._settings.network, target.network, target.rendezvous_host)

    def _in_the_clear(self, target: KvTarget) -> str:
        """Say why nothing may go there: it would leave our private network, and the other side does not encrypt."""
        if not self._leaves(target) or target.encrypts:
            return ""
        return f"KV cache to {self._instance} would leave the private network, and its release does not encrypt links"

    def _drop_links(self) -> None:
        for name, link in self._links.items():
            self._tell(link.source, CloseKvLink(name))
        self._links.clear()
