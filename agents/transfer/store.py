"""Blobs of one process within a bound, for processes of its node and of others to take."""

import logging
import os
import secrets
import select
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Iterable
from contextlib import suppress

import msgspec

from agents.messages.to_store import BlobName, StoreReply, Take
from agents.transfer.blob import Blob, Event, State
from agents.transfer.carriers import Carrier, LinkCarrier, LocalCarrier
from agents.transfer.errors import BadPieceError, BlobGoneError, StoreFullError, TransferError
from agents.transfer.meeting import LinkListener
from agents.transfer.memory import Segment

_log = logging.getLogger(__name__)
_MAX_CONNECTIONS = 256
_MAX_CREDITS = 64
_LEAST_BYTES = 1 << 16
"""Bytes that a piece counts at least: however small it is, it takes a descriptor and a page."""
_TICK_S = 0.25
"""A deadline that passes is noticed as late as this."""
_encode, _decode = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(Take).decode


class BlobStore:
    """A thread for each connection, and one that lets them in and deadlines pass. What is published ends with the
    process: memory has no name, and neither has the socket."""

    def __init__(self, bound_bytes: int, interface: str, stall_s: float = 10.0) -> None:
        """`interface`: this node's address on the private network. `stall_s`: the longest that the other end of a link
        may do nothing, and that a consumer may take to come back after a break. Raises OSError."""
        self._bound_bytes = bound_bytes
        self._stall_s = stall_s
        self._blobs: dict[str, Blob[Segment]] = {}
        self._changed = threading.Condition()
        """Wakes producers; consumers' threads, which hear their connections too, have the event descriptors below."""
        self._bells: set[int] = set()
        self._free_connections = threading.Semaphore(_MAX_CONNECTIONS)
        self._links = LinkListener(interface)
        self.link_address = self._links.address
        self.local_address = f"medley-store-{secrets.token_hex(16)}"
        self._local = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._local.bind(f"\0{self.local_address}")
        self._local.listen()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="store", daemon=True)
        self._thread.start()

    @property
    def held_bytes(self) -> int:
        return sum(blob.held_bytes for blob in list(self._blobs.values()))

    def publish(
        self,
        name: str,
        pieces: Iterable[bytes | memoryview],
        *,
        consumers: int = 1,
        ahead: int = 1 << 20,
        keep_s: float = 60.0,
    ) -> None:
        """Puts a blob into the store, and returns when all of it is there. It is freed when `consumers` have taken it,
        or after `keep_s`. A producer that is `ahead` pieces before the slowest consumer waits for it.

        Raises StoreFullError, BlobGoneError where nobody wants it any more, and BadPieceError for a name that is in
        use; nothing of the blob is left then."""
        blob = Blob[Segment](consumers, ahead, time.monotonic() + keep_s)
        with self._changed:
            if name in self._blobs:
                raise BadPieceError(f"blob {name} is there already")
            self._blobs[msgspec.convert(name, BlobName)] = blob
            self._ring()
        try:
            for piece in pieces:
                view = memoryview(piece).cast("B")
                size = max(len(view), _LEAST_BYTES)
                with self._changed:
                    self._changed.wait_for(lambda: self._claim(blob, size))  # noqa: B023
                segment = Segment.filled(view)
                with self._changed:
                    blob.commit(size, segment)
                    self._ring()
        except BaseException:
            self._happen(blob, Event.WITHDRAW)
            raise
        self._happen(blob, Event.END)

    def withdraw(self, name: str) -> None:
        """Whoever takes it raises BlobGoneError."""
        if (blob := self._blobs.get(name)) is not None:
            self._happen(blob, Event.WITHDRAW)

    def close(self) -> None:
        """Nobody is let in any more, and every blob is withdrawn."""
        self._is_closed = True
        self._thread.join()
        for name in list(self._blobs):
            self.withdraw(name)

    def _claim(self, blob: Blob[Segment], size: int) -> bool:
        if (held := self.held_bytes) + size > self._bound_bytes:
            raise StoreFullError(f"{size} bytes beside the {held} here pass the store's bound of {self._bound_bytes}")
        return blob.claim(size)

    def _happen(self, blob: Blob[Segment], event: Event) -> None:
        with self._changed:
            blob.happen(event)
            self._ring()

    def _ring(self) -> None:
        """Wakes whoever waits for a change; called with the lock."""
        self._changed.notify_all()
        for bell in self._bells:
            os.eventfd_write(bell, 1)

    def _run(self) -> None:
        poll, listening = select.poll(), {each.fileno(): each for each in (self._links.listening, self._local)}
        for each in listening:
            poll.register(each, select.POLLIN)
        while not self._is_closed:
            for ready, _ in poll.poll(1000 * _TICK_S):
                with suppress(OSError):  # gone again, or the system has no descriptor left
                    self._let_in(listening[ready].accept()[0])
            with self._changed:
                for name, blob in list(self._blobs.items()):
                    blob.expire(time.monotonic())
                    if blob.is_over:
                        del self._blobs[name]
                self._ring()
        self._links.listening.close()
        self._local.close()

    def _let_in(self, connection: socket.socket) -> None:
        if self._free_connections.acquire(blocking=False):
            threading.Thread(target=self._serve, args=(connection,), name="store peer", daemon=True).start()
        else:
            connection.close()

    def _serve(self, connection: socket.socket) -> None:
        carrier: Carrier | None = None
        bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        try:
            if (carrier := self._carrier(connection)) is not None:
                with self._changed:
                    self._bells.add(bell)
                self._serve_consumer(carrier, bell)
        except (TransferError, OSError, msgspec.MsgspecError) as error:
            _log.debug("a connection to the store ends: %s", error)
        connection.close()
        with self._changed:
            self._bells.discard(bell)
            if carrier is not None:
                for blob in self._blobs.values():
                    blob.lose(carrier, time.monotonic() + carrier.resume_s)
        os.close(bell)
        self._free_connections.release()

    def _carrier(self, connection: socket.socket) -> Carrier | None:
        """Lets a consumer in; None for a stranger."""
        if connection.family != socket.AF_UNIX:
            end = self._links.admit(connection, self._stall_s)
            return None if end is None else LinkCarrier(end, self._stall_s)
        _, user, _ = struct.unpack("iII", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        # who asks and does not read the answers is given up
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(self._stall_s) + 1, 0))
        return LocalCarrier(connection) if user == os.getuid() else None

    def _serve_consumer(self, carrier: Carrier, bell: int) -> None:
        """Answers its credits in turn, and hears of what it needs no more while it waits."""
        waiting: deque[tuple[Take, float]] = deque()
        poll = select.poll()
        poll.register(carrier.fileno(), select.POLLIN)
        poll.register(bell, select.POLLIN)
        while not self._is_closed:
            if waiting and (answer := self._answer(carrier, *waiting[0], waiting[-1][0].done)):
                carrier.send(_encode(answer[0]), answer[1])
                waiting.popleft()
                continue
            for ready, _ in poll.poll(1000 * _TICK_S):
                if ready == bell:
                    os.eventfd_read(bell)
                else:
                    waiting.append((_decode(carrier.receive()[0]), time.monotonic()))
            if len(waiting) > _MAX_CREDITS:
                raise BadPieceError(f"a consumer has {_MAX_CREDITS} credits at most")

    def _answer(
        self, carrier: Carrier, take: Take, asked_s: float, done: int
    ) -> tuple[StoreReply, Segment | None] | None:
        """Answers one credit; None while there is no answer."""
        try:
            with self._changed:
                if (blob := self._blobs.get(take.name)) is None:
                    if time.monotonic() - asked_s < take.wait_s:
                        return None
                    raise BlobGoneError(f"no blob {take.name} has come within {take.wait_s:g} s")
                held = blob.held_bytes
                piece = blob.take(take.consumer, carrier, take.index, done)
                if blob.held_bytes < held:
                    self._changed.notify_all()  # its producer may wait for this
                if piece is None:
                    return None if blob.state is State.OPEN else (StoreReply("ended"), None)
                return StoreReply("piece"), piece
        except (BlobGoneError, BadPieceError) as error:
            return StoreReply("gone" if isinstance(error, BlobGoneError) else "bad", str(error)), None
