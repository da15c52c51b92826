"""Decodes pictures in processes of their own, which are replaced when a picture ends them."""

import os
import queue
import select
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from typing import IO

import msgspec

from agents.media.decode_order import (
    CHANNELS,
    LENGTH_BYTES,
    MOST_REPLY_BYTES,
    MOST_RGB_BYTES,
    READY,
    DecodeOrder,
    DecodeReply,
    framed,
)
from templates_lib.media.image_format import ImageHeader
from templates_lib.media.media_error import MediaError, too_costly
from templates_lib.media.rules import AnyRule, name_of

START_S = 60.0
"""Within which a decoder has loaded what it needs, on a machine that is busy."""
_INHERITED = ("PATH", "LD_LIBRARY_PATH", "LANG")
"""Variables of the environment that a decoder gets: none that holds a secret."""
_WRITE_BYTES = 1 << 16
_REPLY = msgspec.msgpack.Decoder(DecodeReply)


class DecoderStartError(RuntimeError):
    """A decoder does not start: the message says what it wrote last."""


@dataclass(frozen=True, slots=True)
class DecoderLimits:
    memory_bytes: int = 1 << 30
    """Of a process: four times what 40 Mpixel take."""
    cpu_s: float = 10.0
    """Processor time of a picture; 40 Mpixel take one or two."""
    timeout_s: float = 30.0
    """Of a picture, by the clock."""


@dataclass(frozen=True, slots=True)
class Pixels:
    """Pieces of one size, of which a picture that is not cut has one."""

    width: int
    height: int
    pieces: int
    rgb: bytearray
    """Piece by piece, rows from the top, three bytes a pixel."""


class _EndedError(Exception):
    """The process has ended, has not answered in time, or answers what no decoder does."""


@dataclass(frozen=True, slots=True)
class _Running:
    process: subprocess.Popen[bytes]
    orders: IO[bytes]
    replies: IO[bytes]


class Decoder:
    """One process, which is started when it is first needed. Used by one thread at a time."""

    def __init__(self, limits: DecoderLimits) -> None:
        self._limits = limits
        self._running: _Running | None = None

    @property
    def pid(self) -> int | None:
        """None while none runs."""
        return None if self._running is None else self._running.process.pid

    def decode(self, header: ImageHeader, data: bytes, rule: AnyRule | None = None) -> Pixels:
        """The picture upright, in red, green and blue, and as its encoder sees it where a `rule` says how.

        `header` is what `image_header` says of `data`. Raises MediaError, for a picture that ended the process or took
        too long as well (the next one gets a new process), and DecoderStartError.
        """
        running = self._started()
        order = _order(header, data, rule)
        deadline_s = time.monotonic() + self._limits.timeout_s
        try:
            _write(running.orders, framed(order), deadline_s)
            reply = _reply(running.replies, deadline_s)
            # Of a picture that is refused there are none.
            size = reply.pieces * reply.width * reply.height * CHANNELS
            if not 0 <= size <= MOST_RGB_BYTES:
                raise _EndedError
            rgb = _read(running.replies, size, deadline_s)
        except _EndedError:
            self.close()
            raise too_costly() from None
        except BaseException:  # an interrupt, say: what is left in the pipe would be taken for the next picture's
            self.close()
            raise
        if reply.fault is not None:
            raise MediaError(reply.fault, reply.message)
        return Pixels(reply.width, reply.height, reply.pieces, rgb)

    def close(self) -> None:
        """End the process."""
        if self._running is not None:
            self._running.process.kill()
            self._running.process.wait()
            for pipe in (self._running.orders, self._running.replies):
                pipe.close()
            self._running = None

    def _started(self) -> _Running:
        """Raises DecoderStartError."""
        if self._running is not None and self._running.process.poll() is not None:
            self.close()  # the system ended it between two pictures
        if self._running is None:
            self._running = _start(self._limits)
            try:
                is_ready = _read(self._running.replies, len(READY), time.monotonic() + START_S) == READY
            except _EndedError:
                is_ready = False
            if not is_ready:
                self.close()
                why = "a decoder of pictures does not start: is Pillow there? It comes with the `agent` extra"
                raise DecoderStartError(why)
        return self._running


class Decoders:
    """Several decoders, each of which has one picture at a time; whoever asks for more waits. For threads."""

    def __init__(self, count: int, limits: DecoderLimits) -> None:
        self._all = [Decoder(limits) for _ in range(count)]
        self._idle: queue.LifoQueue[Decoder] = queue.LifoQueue()
        for decoder in self._all:
            self._idle.put(decoder)

    def decode(self, header: ImageHeader, data: bytes, rule: AnyRule | None = None) -> Pixels:
        """See `Decoder.decode`. The one that was used last comes first: others need not even have started."""
        decoder = self._idle.get()
        try:
            return decoder.decode(header, data, rule)
        finally:
            self._idle.put(decoder)

    def close(self) -> None:
        """End all processes. Nothing may be decoded meanwhile."""
        for decoder in self._all:
            decoder.close()


def _order(header: ImageHeader, data: bytes, rule: AnyRule | None) -> DecodeOrder:
    stored = header.format, header.width, header.height, header.orientation, data
    return DecodeOrder(*stored) if rule is None else DecodeOrder(*stored, name_of(rule), asdict(rule))


def _start(limits: DecoderLimits) -> _Running:
    """Raises DecoderStartError, OSError."""
    environment = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    process = subprocess.Popen(
        (sys.executable, "-m", "agents.media.decoder_process", str(limits.memory_bytes), str(limits.cpu_s)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        bufsize=0,
        start_new_session=True,  # an interrupt at the terminal is for who started us
    )
    if process.stdin is None or process.stdout is None:
        raise DecoderStartError("a decoder of pictures has no pipes")
    for pipe in (process.stdin, process.stdout):
        os.set_blocking(pipe.fileno(), False)
    return _Running(process, process.stdin, process.stdout)


def _reply(replies: IO[bytes], deadline_s: float) -> DecodeReply:
    """Raises _EndedError, for what is no reply as well."""
    length = int.from_bytes(_read(replies, LENGTH_BYTES, deadline_s))
    if length > MOST_REPLY_BYTES:
        raise _EndedError
    try:
        reply: DecodeReply = _REPLY.decode(_read(replies, length, deadline_s))
    except msgspec.MsgspecError as error:
        raise _EndedError from error
    return reply


def _write(orders: IO[bytes], message: bytes, deadline_s: float) -> None:
    """Raises _EndedError."""
    left, file = memoryview(message), orders.fileno()
    while left:
        _wait(file, select.POLLOUT, deadline_s)
        try:
            left = left[os.write(file, left[:_WRITE_BYTES]) :]
        except BlockingIOError:
            continue
        except OSError as error:
            raise _EndedError from error


def _read(replies: IO[bytes], size: int, deadline_s: float) -> bytearray:
    """Raises _EndedError."""
    whole = bytearray(size)
    left, file = memoryview(whole), replies.fileno()
    while left:
        _wait(file, select.POLLIN, deadline_s)
        try:
            got = os.readv(file, [left])
        except BlockingIOError:
            continue
        if got == 0:
            raise _EndedError
        left = left[got:]
    return whole


def _wait(file: int, event: int, deadline_s: float) -> None:
    """Until the file can be read or written, or has ended. Raises _EndedError at the deadline."""
    left_s = deadline_s - time.monotonic()
    poll = select.poll()
    poll.register(file, event)
    if left_s <= 0 or not poll.poll(1000 * left_s):
        raise _EndedError
