"""The listening end of a channel: many authenticated peers over one ROUTER socket."""

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from typing import Any, Generic, Protocol, TypeVar

import msgspec
import zmq
from zmq.utils.monitor import parse_monitor_message

from agents.channels.errors import BadKeyError, MessageTooBigError, PeerLostError, QueueFullError
from agents.channels.gatekeeper import Gatekeeper
from agents.channels.keys import KeyPair
from agents.channels.peer import Peer
from agents.channels.pump import Pump
from agents.channels.settings import ChannelSettings
from agents.channels.sockets import limit
from agents.messages.session import (
    NEWEST_PROTOCOL,
    OLDEST_PROTOCOL,
    Hello,
    Ping,
    Pong,
    Refusal,
    Refused,
    Welcome,
    common_protocol,
)
from agents.messages.wire import Decoder, MalformedMessageError, encode

_log = logging.getLogger(__name__)

Incoming = TypeVar("Incoming")
Received_contra = TypeVar("Received_contra", contravariant=True)


_LAST_WORDS_S = 0.05
"""Seconds by which a peer's last message may follow the event that its connection has ended: other socket, other
queue."""


class ListenerEvents(Protocol[Received_contra]):
    """Receiver of a listener's events. Called on the loop; an exception is logged and costs no other peer anything."""

    def joined(self, peer: Peer) -> None: ...

    def received(self, peer: Peer, message: Received_contra) -> None: ...

    def left(self, peer: Peer, reason: str) -> None:
        """Gone, silent, revoked or dropped: free what is held for it."""


class Listener(Generic[Incoming]):
    """Make it on a running loop; it listens until closed."""

    def __init__(
        self,
        bind: str,
        keys: KeyPair,
        allowed: Mapping[str, str] | None,
        receives: Any,
        events: ListenerEvents[Incoming],
        settings: ChannelSettings | None = None,
    ) -> None:
        """`bind`: tcp://interface:port, port 0 for any. `allowed`: public key → name; a list that changes is looked at
        with every heartbeat, and keys of which one may be revoked alone have names of their own. `receives`: a union of
        messages.

        Where nobody can be known yet, `allowed` is None: whoever has a key may speak, and is named by it.
        Raises OSError when the address is taken."""
        self._settings = settings or ChannelSettings()
        self._events = events
        self._decoder: Decoder[Incoming] = Decoder(receives)
        self._peers: dict[bytes, Peer] = {}
        self._silent_beats: dict[bytes, int] = {}
        """Heartbeats since each was heard. Our own: while this process is stopped, others are not silent."""
        self._of_fd: dict[int, Peer] = {}
        """Who came over which descriptor of libzmq's."""
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._allowed, known = allowed, None if allowed is None else _as_it_is(allowed)
        self._known = known or {}
        self._gatekeeper = Gatekeeper(self._context, known)
        self._socket = self._context.socket(zmq.ROUTER)
        limit(self._socket, bind, self._settings)
        self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self._socket.setsockopt(zmq.CURVE_SERVER, 1)
        self._socket.setsockopt(zmq.ZAP_DOMAIN, b"medley")
        self._socket.setsockopt(zmq.CURVE_SECRETKEY, keys.secret.encode())
        self._socket.setsockopt(zmq.CURVE_PUBLICKEY, keys.public.encode())
        self._monitor = self._socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        try:
            self._socket.bind(bind)
        except zmq.ZMQError as error:
            self._gatekeeper.close()
            self._context.destroy(linger=0)
            raise OSError(error.errno, f"cannot listen on {bind}: {error}") from error
        self.endpoint = bytes(self._socket.get(zmq.LAST_ENDPOINT)).rstrip(b"\0").decode()
        self._pump = Pump(self._socket, self._receive)
        self._monitor_pump = Pump(self._monitor, self._observe)
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(self._settings.heartbeat_s, self._drop_the_silent)

    @property
    def peers(self) -> tuple[Peer, ...]:
        return tuple(self._peers.values())

    def allow(self, allowed: Mapping[str, str]) -> None:
        """Replace the list of keys; peers whose key is no longer on it are dropped."""
        now = _as_it_is(allowed)
        self._allowed = allowed  # before events are called, which may give another list
        self._put_in_force(now)

    def send(self, peer: Peer, message: msgspec.Struct) -> None:
        """Raises PeerLostError, QueueFullError or MessageTooBigError; never waits."""
        if peer.connection not in self._peers:
            raise PeerLostError(f"{peer.name} is not connected")
        self._send(peer.connection, message)

    def drop(self, peer: Peer, reason: str) -> None:
        """Forget a peer; should it speak again, it has to say hello first."""
        if self._peers.get(peer.connection) is peer:
            del self._peers[peer.connection], self._silent_beats[peer.connection]
            _log.warning("lost %s %s: %s", peer.role, peer.name, reason)
            self._call(self._events.left, peer, reason)

    def close(self) -> None:
        """Stop; what is queued has `linger_s` to leave. Closing again is nothing."""
        if self._context.closed:
            return
        self._timer.cancel()
        self._pump.close()
        self._monitor_pump.close()
        self._socket.disable_monitor()
        self._monitor.close(linger=0)
        self._gatekeeper.close()
        self._peers.clear()
        self._context.destroy(linger=int(self._settings.linger_s * 1000))

    def _send(self, connection: bytes, message: msgspec.Struct) -> None:
        payload = encode(message)
        if len(payload) > self._settings.max_message_bytes:
            raise MessageTooBigError(f"{type(message).__name__} of {len(payload)} bytes")
        try:
            self._socket.send_multipart((connection, payload), zmq.NOBLOCK)
        except zmq.Again:
            raise QueueFullError(
                f"{self._settings.queue_messages} messages wait for a peer that does not read"
            ) from None
        except zmq.ZMQError as error:
            raise PeerLostError(str(error)) from error
        finally:
            self._pump.poke()

    def _receive(self) -> None:
        connection = self._socket.recv(zmq.NOBLOCK)
        frame = self._socket.recv(zmq.NOBLOCK, copy=False)
        is_whole = not frame.more
        while self._socket.getsockopt(zmq.RCVMORE):
            self._socket.recv(zmq.NOBLOCK)
        try:
            if not is_whole:
                raise MalformedMessageError("more than one frame")
            message = self._decoder.decode(frame.bytes)
        except MalformedMessageError as error:
            self._refuse(connection, frame, Refusal.MALFORMED, f"malformed message: {error}")
            return
        peer = self._peers.get(connection)
        if isinstance(message, Hello):
            self._greet(connection, frame, message)
        elif peer is None:
            self._refuse(connection, frame, Refusal.NO_SESSION, "say hello first")
        else:
            self._silent_beats[connection] = 0
            self._handle(peer, message)

    def _observe(self) -> None:
        """A connection has ended: whoever it was is gone, and need not be waited for."""
        event = parse_monitor_message(self._monitor.recv_multipart(zmq.NOBLOCK))
        peer = self._of_fd.pop(event["value"], None)
        if peer is not None:
            self._loop.call_later(_LAST_WORDS_S, self.drop, peer, "disconnected")

    def _observe_all(self) -> None:
        """Read all events before a new peer gets the descriptor of one that is gone."""
        with contextlib.suppress(zmq.Again):
            while True:
                self._observe()

    def _handle(self, peer: Peer, message: Any) -> None:
        if isinstance(message, Ping):
            self._answer(peer.connection, Pong())
        elif isinstance(message, Pong | Welcome):
            pass
        elif isinstance(message, Refused):
            self.drop(peer, f"it refused us: {message.reason}")
        else:
            self._call(self._events.received, peer, message)

    def _greet(self, connection: bytes, frame: zmq.Frame, hello: Hello) -> None:
        protocol = common_protocol(hello)
        if protocol is None:
            self._refuse(
                connection,
                frame,
                Refusal.PROTOCOL,
                f"protocol {hello.oldest} to {hello.newest} offered, we speak {OLDEST_PROTOCOL} to {NEWEST_PROTOCOL}",
            )
            return
        name = str(frame.get("User-Id"))
        if not self._gatekeeper.knows(name):
            self._refuse(connection, frame, Refusal.NO_SESSION, "its key was revoked")
            return
        known = self._peers.get(connection)
        if known is not None:
            self.drop(known, "it started over")
        peer = Peer(connection, name, hello.role, protocol)
        self._observe_all()
        self._of_fd[int(frame.get(zmq.SRCFD))] = peer
        self._peers[connection] = peer
        self._silent_beats[connection] = 0
        self._answer(connection, Welcome(protocol))
        _log.info("%s %s joined with protocol %d", peer.role, peer.name, protocol)
        self._call(self._events.joined, peer)

    def _refuse(self, connection: bytes, frame: zmq.Frame, code: Refusal, reason: str) -> None:
        _log.warning("refused a message of %s: %s", frame.get("User-Id"), reason)
        self._answer(connection, Refused(code, reason[:1000]))
        peer = self._peers.get(connection)
        if peer is not None:
            self.drop(peer, reason)

    def _answer(self, connection: bytes, message: msgspec.Struct) -> None:
        """Answer if it can be sent at once: whoever does not read its answers is lost by time-out."""
        try:
            self._send(connection, message)
        except (PeerLostError, QueueFullError) as error:
            _log.debug("no answer sent: %s", error)

    def _drop_the_silent(self) -> None:
        self._timer = self._loop.call_later(self._settings.heartbeat_s, self._drop_the_silent)
        self._look_who_is_allowed()
        for peer in self.peers:
            self._silent_beats[peer.connection] += 1
            if self._silent_beats[peer.connection] > self._settings.lost_after_beats:
                self.drop(peer, f"silent for {self._settings.lost_after_s:g} s")

    def _look_who_is_allowed(self) -> None:
        if self._allowed is None:
            return
        now = _as_it_is(self._allowed)
        if now != self._known:
            self._known = now
            try:
                self._put_in_force(now)
            except BadKeyError as error:
                _log.error("%s: the list of keys before stays in force", error)

    def _put_in_force(self, now: dict[str, str]) -> None:
        self._gatekeeper.allow(now)
        self._known = now
        names = set(now.values())
        for peer in self.peers:
            if peer.name not in names:
                self.drop(peer, "its key was revoked")

    def _call(self, event: Any, *arguments: Any) -> None:
        try:
            event(*arguments)
        except Exception:
            _log.exception("handler of a channel event failed")


def _as_it_is(allowed: Mapping[str, str]) -> dict[str, str]:
    """Return one list of a mapping that may change: by its items, as `dict(allowed)` asks for each key by itself."""
    return dict(allowed.items())
