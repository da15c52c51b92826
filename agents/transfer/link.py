"""One end of a link: a TCP connection between two nodes.

Bytes go from where they lie to the system and from the system to where they belong, gathered and scattered: on a CPU,
memory is what limits, and every copy in between would cost as much as the sending does. So nobody waits while he holds
on to that memory: it is asked for anew whenever the connection takes or has something.

What goes wrong leaves the link unusable: it is closed and connected anew.
"""

import select
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice

from agents.transfer.errors import BlobGoneError, LinkLostError
from agents.transfer.memory import Memory

_WHOLE, _VOID = b"\1", b"\0"
"""Mark behind a piece. A void one is of a blob that was freed while it was sent."""
_AT_ONCE = 1000
"""Parts of a piece in one call; the system takes 1024."""
_NOTHING = memoryview(bytes(1 << 16))
_WAKE_BYTES = 1 << 20
"""Bytes to wait for: an end that looks for every packet spends its time on looking."""


class LinkEnd:
    def __init__(self, connection: socket.socket, stall_s: float) -> None:
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # a node that is gone says no farewell
        for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL):
            connection.setsockopt(socket.IPPROTO_TCP, option, max(1, int(stall_s / 3)))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 2)
        self._connection = connection
        self.stall_s = stall_s
        self._poll = select.poll()
        self._poll.register(connection)
        self._scratch = memoryview(bytearray(1 << 16))
        self._wakes_at = 1
        self._closing = threading.Lock()

    def send_piece(self, begin: bytes, size: int, memory: Memory) -> bool:
        """Sends `begin` and the `size` bytes of a piece. False where it is sent as void, since its blob was freed
        meanwhile. Raises LinkLostError, and BlobGoneError before anything is sent."""
        sent, total = 0, len(begin) + size + 1
        header = memoryview(begin)
        while sent < total:
            try:
                with memory() as parts:
                    sent += self._send((header, *parts, memoryview(_WHOLE)), sent)
            except BlobGoneError:
                if not sent:
                    raise
                self._send_nothing(total - sent)
                return False
            if sent < total:
                self._wait(select.POLLOUT, self.stall_s)
        return True

    def receive_piece(self, size: int, memory: Memory | None) -> bool:
        """Takes the `size` bytes of a piece; it is passed over without `memory`. False where it is void, or the memory
        went to another blob meanwhile. Raises LinkLostError."""
        got = 0
        while got < size and memory is not None:
            self._wait_for(size - got, self.stall_s)
            try:
                with memory() as parts:
                    got += self._take(parts, got)
            except BlobGoneError:
                memory = None
        while got < size:
            self._wait_for(size - got, self.stall_s)
            got += self._take((self._scratch[: size - got],), 0)
        return self.receive(len(_WHOLE)) == _WHOLE and memory is not None

    def send(self, whole: bytes | memoryview) -> None:
        """Sends bytes without a mark behind them. Raises LinkLostError."""
        view, sent = memoryview(whole), 0
        while sent < len(view):
            self._wait(select.POLLOUT, self.stall_s)
            sent += self._send((view,), sent)

    def receive(self, size: int, *, is_due: bool = True) -> bytes:
        """Receives `size` bytes; where they are not due, however long the first takes. Raises LinkLostError."""
        found, got = memoryview(bytearray(size)), 0
        if not is_due:
            self._wait_for(1, None)
        while got < size:
            self._wait_for(size - got, self.stall_s)
            got += self._take((found,), got)
        return bytes(found)

    def wake_at(self, size: int) -> None:
        """Has the descriptor be readable when so many bytes have come."""
        if self._wakes_at != size:
            self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, size)
            self._wakes_at = size

    def has_more(self) -> bool:
        """Whether bytes have come that the descriptor no longer tells of."""
        return False

    def fileno(self) -> int:
        return self._connection.fileno()

    def hang_up(self) -> None:
        """Ends the connection, from any thread: whoever waits, here or at the other end, raises LinkLostError."""
        with self._closing, suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Closes the connection; for the thread that used it."""
        with self._closing:
            self._connection.close()

    def _send(self, parts: Sequence[memoryview], done: int) -> int:
        """Sends what the connection takes now of the bytes behind `done`."""
        try:
            return self._connection.sendmsg(behind(parts, done))
        except BlockingIOError:
            return 0
        except OSError as error:
            raise LinkLostError(str(error)) from error

    def _send_nothing(self, size: int) -> None:
        """Sends zeros, the last of them `_VOID`."""
        for done in range(0, size, len(_NOTHING)):
            self.send(_NOTHING[: size - done])

    def _take(self, parts: Sequence[memoryview], done: int) -> int:
        """Receives what has come now of the bytes behind `done`."""
        try:
            got = self._connection.recvmsg_into(behind(parts, done))[0]
        except BlockingIOError:
            return 0
        except OSError as error:
            raise LinkLostError(str(error)) from error
        if not got:
            raise LinkLostError("the other end has closed the connection")
        return got

    def _wait_for(self, size: int, timeout_s: float | None) -> None:
        """Waits for so many bytes, or enough to begin with."""
        self.wake_at(min(size, _WAKE_BYTES))
        self._wait(select.POLLIN, timeout_s)

    def _wait(self, event: int, timeout_s: float | None) -> None:
        self._poll.modify(self._connection, event)
        if not self._poll.poll(None if timeout_s is None else 1000 * timeout_s):
            raise LinkLostError(f"the other end did nothing for {timeout_s:g} s")


def behind(parts: Sequence[memoryview], done: int) -> list[memoryview]:
    """Parts of the bytes behind the first `done`, as many as are sent at once."""
    for first, part in enumerate(parts):
        if done < len(part):
            return [part[done:], *islice(parts, first + 1, first + _AT_ONCE)]
        done -= len(part)
    return []
