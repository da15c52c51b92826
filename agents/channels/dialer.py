"""The dialling end of a channel: one peer, known by address and key, over a DEALER socket that reconnects by itself."""

import asyncio
import contextlib
import logging
from typing import Any, Generic, Protocol, TypeVar

import msgspec
import zmq
from zmq.utils.monitor import parse_monitor_message

from agents.channels.address import Address
from agents.channels.errors import MessageTooBigError, PeerLostError, QueueFullError, RefusedError
from agents.channels.keys import KeyPair
from agents.channels.pump import Pump
from agents.channels.settings import ChannelSettings
from agents.channels.sockets import limit
from agents.messages.session import NEWEST_PROTOCOL, OLDEST_PROTOCOL, Hello, Ping, Pong, Refusal, Refused, Welcome
from agents.messages.wire import Decoder, MalformedMessageError, encode

_log = logging.getLogger(__name__)

Incoming = TypeVar("Incoming")
Received_contra = TypeVar("Received_contra", contravariant=True)

_WATCHED = (
    zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_DISCONNECTED
)


class DialerEvents(Protocol[Received_contra]):
    """Receiver of a dialer's events. Called on the loop; an exception is logged."""

    def up(self) -> None: ...

    def received(self, message: Received_contra) -> None: ...

    def down(self, reason: str) -> None:
        """Handle the loss of the peer: what was under way there is lost to us. `up` follows when it is back."""


class Dialer(Generic[Incoming]):
    """Make it on a running loop; it dials until closed."""

    def __init__(
        self,
        address: Address,
        keys: KeyPair,
        role: str,
        receives: Any,
        events: DialerEvents[Incoming],
        settings: ChannelSettings | None = None,
        protocols: tuple[int, int] = (OLDEST_PROTOCOL, NEWEST_PROTOCOL),
    ) -> None:
        """`receives`: a union of messages. `protocols`: oldest and newest version offered."""
        self.address = address
        self.is_up = False
        self.protocol = protocols[1]
        """What the peer has agreed to, once it is up."""
        self.refusal: RefusedError | None = None
        """Why the peer does not accept us; None when it does, or has not answered."""
        self._settings = settings or ChannelSettings()
        self._hello = Hello(newest=protocols[1], oldest=protocols[0], role=role)
        self._events = events
        self._decoder: Decoder[Incoming] = Decoder(receives)
        self._loop = asyncio.get_running_loop()
        self._greeted_s = self._loop.time()
        self._silent_beats = 0
        """Heartbeats since the peer was heard. Our own: while this process is stopped, others are not silent."""
        self._changed = asyncio.Event()
        self._redialling: asyncio.TimerHandle | None = None
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context.instance()
        self._socket = self._context.socket(zmq.DEALER)
        limit(self._socket, address.endpoint, self._settings)
        self._socket.setsockopt(zmq.IMMEDIATE, 1)
        self._socket.setsockopt(zmq.CURVE_SERVERKEY, address.public_key.encode())
        self._socket.setsockopt(zmq.CURVE_SECRETKEY, keys.secret.encode())
        self._socket.setsockopt(zmq.CURVE_PUBLICKEY, keys.public.encode())
        self._monitor = self._socket.get_monitor_socket(_WATCHED)
        self._monitor_pump = Pump(self._monitor, self._observe)
        self._socket.connect(address.endpoint)
        self._pump = Pump(self._socket, self._receive)
        self._timer = self._loop.call_later(self._settings.heartbeat_s, self._beat)

    def send(self, message: msgspec.Struct) -> None:
        """Raises PeerLostError, QueueFullError or MessageTooBigError; never waits."""
        if not self.is_up:
            raise PeerLostError(f"{self.address.endpoint} is not connected")
        self._send(message)

    async def wait_up(self, timeout_s: float) -> None:
        """Return once welcomed; raises RefusedError as soon as the peer refuses, PeerLostError on time-out."""
        try:
            async with asyncio.timeout(timeout_s):
                while not self.is_up:
                    if self.refusal is not None:
                        raise self.refusal
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise PeerLostError(f"no welcome from {self.address.endpoint} within {timeout_s:g} s") from None

    def close(self) -> None:
        """Stop; no event follows. Closing again is nothing."""
        if self._socket.closed:
            return
        self.is_up = False
        self._timer.cancel()
        if self._redialling is not None:
            self._redialling.cancel()
        self._pump.close()
        self._monitor_pump.close()
        self._socket.disable_monitor()
        self._monitor.close(linger=0)
        self._socket.close()

    def _send(self, message: msgspec.Struct) -> None:
        payload = encode(message)
        if len(payload) > self._settings.max_message_bytes:
            raise MessageTooBigError(f"{type(message).__name__} of {len(payload)} bytes")
        try:
            self._socket.send(payload, zmq.NOBLOCK)
        except zmq.Again:
            raise QueueFullError(f"{self.address.endpoint} does not read") from None
        finally:
            self._pump.poke()

    def _receive(self) -> None:
        payload = self._socket.recv(zmq.NOBLOCK)
        try:
            message = self._decoder.decode(payload)
        except MalformedMessageError as error:
            self._go_down(f"malformed message: {error}")
            self._greet()
            return
        self._silent_beats = 0
        if isinstance(message, Welcome):
            self._come_up(message)
        elif isinstance(message, Refused):
            self._take_refusal(message)
        elif isinstance(message, Ping):
            self._try_send(Pong())
        elif not isinstance(message, Pong | Hello) and self.is_up:
            self._call(self._events.received, message)

    def _observe(self) -> None:
        """One event of libzmq about the connection below."""
        event = parse_monitor_message(self._monitor.recv_multipart(zmq.NOBLOCK))
        kind = zmq.Event(event["event"])
        if kind == zmq.EVENT_HANDSHAKE_SUCCEEDED:
            self._silent_beats = 0
            self._greet()
        elif kind == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
            self._be_refused(f"{self.address.endpoint} does not know our key")
            # libzmq gives up here; but our key may be on its way to the peer's list.
            self._redialling = self._loop.call_later(self._settings.reconnect_max_s, self._redial)
        elif kind == zmq.EVENT_DISCONNECTED:
            self._go_down("disconnected")
        else:
            self._be_refused(f"{self.address.endpoint} does not have the key that we expect, or does not speak ZeroMQ")

    def _redial(self) -> None:
        with contextlib.suppress(zmq.ZMQError):  # libzmq may have forgotten the endpoint
            self._socket.disconnect(self.address.endpoint)
        self._socket.connect(self.address.endpoint)

    def _greet(self) -> None:
        self._greeted_s = self._loop.time()
        self._try_send(self._hello)

    def _come_up(self, welcome: Welcome) -> None:
        if not self.is_up:
            self.is_up, self.protocol = True, welcome.protocol
            self.refusal = None
            self._changed.set()
            _log.info("connected to %s with protocol %d", self.address.endpoint, welcome.protocol)
            self._call(self._events.up)

    def _take_refusal(self, refused: Refused) -> None:
        if refused.code == Refusal.PROTOCOL:
            self._be_refused(f"{self.address.endpoint}: {refused.reason}")
        elif self.is_up:
            self._go_down(refused.reason)
            self._greet()
        # Else our hello was refused, or crosses this: to say it again at once would go on for ever. `_beat` does.

    def _be_refused(self, reason: str) -> None:
        if self.refusal is None or str(self.refusal) != reason:
            _log.error("refused by a peer: %s", reason)
        self.refusal = RefusedError(reason)
        self._changed.set()
        self._go_down(reason)

    def _go_down(self, reason: str) -> None:
        if self.is_up:
            self.is_up = False
            self._changed.set()
            _log.warning("lost %s: %s", self.address.endpoint, reason)
            self._call(self._events.down, reason)

    def _beat(self) -> None:
        self._timer = self._loop.call_later(self._settings.heartbeat_s, self._beat)
        if self.is_up:
            self._silent_beats += 1
            if self._silent_beats > self._settings.lost_after_beats:
                self._go_down(f"silent for {self._settings.lost_after_s:g} s")
                self._greet()
            else:
                self._try_send(Ping())
        elif self.refusal is None and self._loop.time() - self._greeted_s > self._settings.lost_after_s:
            self._greet()

    def _try_send(self, message: msgspec.Struct) -> None:
        """Send if there is a connection: without one there is nobody to tell."""
        try:
            self._send(message)
        except QueueFullError as error:
            _log.debug("not sent: %s", error)

    def _call(self, event: Any, *arguments: Any) -> None:
        try:
            event(*arguments)
        except Exception:
            _log.exception("handler of a channel event failed")
