"""One end of a link: a TCP connection between a prefill node and a decode node.

Chunks behind their headers go one way, acknowledgements the other way. The bytes of a chunk go from the KV cache to the
system and from the system to the KV cache, gathered from wherever they lie and scattered to wherever they belong: on a
CPU, memory is what limits, and every copy in between would cost as much as the sending does. So nobody waits while he
holds on to that memory: it is asked for anew whenever the connection takes or has something.

What goes wrong leaves the link unusable: it is closed and connected anew under another name.
"""

import hmac
import secrets
import select
import socket
import struct
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice

from agents.edges.errors import EdgeLostError
from agents.edges.pair import first_line
from agents.edges.rendezvous import join
from agents.engines.errors import UnknownRequestError
from agents.engines.protocol import Memory
from agents.hand_off.chunk import ChunkHeader
from agents.hand_off.settings import HandOffSettings

UNHEARD_ANSWERS = 2
"""Acknowledgements that may be on their way before an end waits for one."""

_TOKEN_BYTES = 32
_INTRODUCTION_S = 1.0
"""For whoever connects to say who he is."""
_ANSWER = struct.Struct("<qq?")
_WHOLE, _VOID = b"\1", b"\0"
"""Behind a chunk. A void one is of a request that was freed while it was sent."""
_PIECES = 1000
"""At once; the system takes 1024."""
_NOTHING = memoryview(bytes(1 << 16))
_WAKE_BYTES = 1 << 20
"""Of a chunk: an end that looks for every packet spends its time on looking."""


class LinkLostError(Exception):
    """The other end is gone, or silent for too long: connect anew."""


class LinkEnd:
    def __init__(self, connection: socket.socket, stall_s: float) -> None:
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection = connection
        self._stall_s = stall_s
        self._poll = select.poll()
        self._poll.register(connection)
        self._scratch = memoryview(bytearray(1 << 16))
        self._wakes_at = 1
        self._closing = threading.Lock()

    def send_chunk(self, header: ChunkHeader, size: int, memory: Memory) -> bool:
        """`size`: bytes of the chunk. False where it is sent as void, since its request was freed meanwhile. Raises
        LinkLostError, and UnknownRequestError before anything is sent."""
        begin = memoryview(header.packed())
        sent, total = 0, len(begin) + size + 1
        while sent < total:
            try:
                with memory() as pieces:
                    sent += self._send((begin, *pieces, memoryview(_WHOLE)), sent)
            except UnknownRequestError:
                if not sent:
                    raise
                self._send_nothing(total - sent)
                return False
            if sent < total:
                self._wait(select.POLLOUT, self._stall_s)
        return True

    def next_chunk(self) -> ChunkHeader:
        """Of the chunk that comes next, however long that takes. Raises LinkLostError and BadChunkError."""
        self._wait_for(1, None)
        return ChunkHeader.of(self._receive(ChunkHeader.BYTES))

    def receive_chunk(self, size: int, memory: Memory | None) -> bool:
        """`size`: bytes of the chunk; it is passed over without `memory`. False where it is void, or the memory went to
        another request meanwhile. Raises LinkLostError."""
        got = 0
        while got < size and memory is not None:
            self._wait_for(size - got, self._stall_s)
            try:
                with memory() as pieces:
                    got += self._take(pieces, got)
            except UnknownRequestError:
                memory = None
        while got < size:
            self._wait_for(size - got, self._stall_s)
            got += self._take((self._scratch[: size - got],), 0)
        return self._receive(len(_WHOLE)) == _WHOLE and memory is not None

    def send_answer(self, run: int, index: int, is_wanted: bool) -> None:
        """Of all chunks of `run` up to `index`. Raises LinkLostError."""
        self._send_all(memoryview(_ANSWER.pack(run, index, is_wanted)))

    def next_answer(self) -> tuple[int, int, bool]:
        """(run, index, whether more of the run is wanted). Raises LinkLostError."""
        run, index, is_wanted = _ANSWER.unpack(self._receive(_ANSWER.size))
        return run, index, is_wanted

    def hang_up(self) -> None:
        """From any thread: whoever waits, here or at the other end, raises LinkLostError."""
        with self._closing, suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """By the thread that used it."""
        with self._closing:
            self._connection.close()

    def _send(self, pieces: Sequence[memoryview], done: int) -> int:
        """What the connection takes now of the bytes behind `done`."""
        try:
            return self._connection.sendmsg(_behind(pieces, done))
        except BlockingIOError:
            return 0
        except OSError as error:
            raise LinkLostError(str(error)) from error

    def _send_nothing(self, size: int) -> None:
        """Zeros, the last of them `_VOID`."""
        for done in range(0, size, len(_NOTHING)):
            self._send_all(_NOTHING[: size - done])

    def _send_all(self, whole: memoryview) -> None:
        sent = 0
        while sent < len(whole):
            self._wait(select.POLLOUT, self._stall_s)
            sent += self._send((whole,), sent)

    def _receive(self, size: int) -> bytes:
        found, got = memoryview(bytearray(size)), 0
        while got < size:
            self._wait_for(size - got, self._stall_s)
            got += self._take((found,), got)
        return bytes(found)

    def _take(self, pieces: Sequence[memoryview], done: int) -> int:
        """What has come now of the bytes behind `done`."""
        try:
            got = self._connection.recvmsg_into(_behind(pieces, done))[0]
        except BlockingIOError:
            return 0
        except OSError as error:
            raise LinkLostError(str(error)) from error
        if not got:
            raise LinkLostError("the other end has closed the connection")
        return got

    def _wait_for(self, size: int, timeout_s: float | None) -> None:
        """For so many bytes, or enough to begin with."""
        if self._wakes_at != (wakes_at := min(size, _WAKE_BYTES)):
            self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, wakes_at)
            self._wakes_at = wakes_at
        self._wait(select.POLLIN, timeout_s)

    def _wait(self, event: int, timeout_s: float | None) -> None:
        self._poll.modify(self._connection, event)
        if not self._poll.poll(None if timeout_s is None else 1000 * timeout_s):
            raise LinkLostError(f"the other end did nothing for {timeout_s:g} s")


def accept(name: str, at: tuple[str, int], settings: HandOffSettings) -> LinkEnd:
    """The receiving end, on this node's private address. `at`: host and port of the rendezvous. Raises LinkLostError
    where nobody comes who knows of it."""
    end_s = time.monotonic() + settings.stall_s
    token = secrets.token_bytes(_TOKEN_BYTES)
    try:
        with socket.create_server((settings.interface, 0)) as listening:
            place = f"{settings.interface} {listening.getsockname()[1]} {token.hex()}"
            join(*at, settings.stall_s).set(_key(name), place)
            while (left_s := end_s - time.monotonic()) > 0:
                listening.settimeout(left_s)
                connection, _ = listening.accept()
                if _knows(connection, token):
                    return LinkEnd(connection, settings.stall_s)
                connection.close()
    except (EdgeLostError, OSError, RuntimeError) as error:
        raise LinkLostError(first_line(error)) from error
    raise LinkLostError(f"the other end did not come within {settings.stall_s:g} s")


def connect(name: str, at: tuple[str, int], settings: HandOffSettings) -> LinkEnd:
    """The sending end. `at`: host and port of the rendezvous. Raises LinkLostError."""
    try:
        store = join(*at, settings.stall_s)
        host, port, token = store.get(_key(name)).decode("ascii").split(" ")
        store.delete_key(_key(name))
        connection = socket.create_connection((host, int(port)), settings.stall_s)
        try:
            connection.sendall(bytes.fromhex(token))
        except OSError:
            connection.close()
            raise
    except (EdgeLostError, OSError, RuntimeError, ValueError) as error:
        raise LinkLostError(first_line(error)) from error
    return LinkEnd(connection, settings.stall_s)


def _key(name: str) -> str:
    return f"kv {name}"


def _knows(connection: socket.socket, token: bytes) -> bool:
    end_s = time.monotonic() + _INTRODUCTION_S
    said = b""
    with suppress(OSError):
        while len(said) < len(token) and (left_s := end_s - time.monotonic()) > 0:
            connection.settimeout(left_s)
            more = connection.recv(len(token) - len(said))
            if not more:
                break
            said += more
    return hmac.compare_digest(said, token)


def _behind(pieces: Sequence[memoryview], done: int) -> list[memoryview]:
    """As many as are sent at once of those behind the first `done` bytes."""
    for first, piece in enumerate(pieces):
        if done < len(piece):
            return [piece[done:], *islice(pieces, first + 1, first + _PIECES)]
        done -= len(piece)
    return []
