"""Frames on the pipes of a process of tasks, waited for until a deadline."""

import os
import select
import time
from typing import IO

from medley_sdk.messages import HEADER_BYTES, MOST_FRAME_BYTES


def write_frame(pipe: IO[bytes] | None, data: bytes, deadline_s: float, most_bytes: int = MOST_FRAME_BYTES) -> None:
    """Write to a pipe that does not block. `deadline_s`: by the monotonic clock. Raises TimeoutError, OSError, and
    ValueError for more than a frame may have."""
    assert pipe is not None  # noqa: S101 - the process was started with one
    _check(len(data), most_bytes)
    rest, number = memoryview(len(data).to_bytes(HEADER_BYTES, "big") + data), pipe.fileno()
    while rest:
        _wait(number, select.POLLOUT, deadline_s)
        rest = rest[os.write(number, rest) :]


def read_frame(pipe: IO[bytes] | None, deadline_s: float, most_bytes: int = MOST_FRAME_BYTES) -> bytes:
    """Raises TimeoutError, EOFError, OSError, and ValueError for more than a frame may have."""
    assert pipe is not None  # noqa: S101 - the process was started with one
    size = int.from_bytes(_read(pipe.fileno(), HEADER_BYTES, deadline_s), "big")
    _check(size, most_bytes)
    return _read(pipe.fileno(), size, deadline_s)


def _read(number: int, size: int, deadline_s: float) -> bytes:
    data = bytearray()
    while len(data) < size:
        _wait(number, select.POLLIN, deadline_s)
        part = os.read(number, size - len(data))
        if not part:
            raise EOFError
        data += part
    return bytes(data)


def _wait(number: int, event: int, deadline_s: float) -> None:
    waiting, left_ms = select.poll(), (deadline_s - time.monotonic()) * 1000
    waiting.register(number, event)
    if left_ms <= 0 or not waiting.poll(left_ms):
        raise TimeoutError


def _check(size: int, most_bytes: int) -> None:
    if size > most_bytes:
        raise ValueError(f"{size} bytes are handed over at once; {most_bytes} are the most")
