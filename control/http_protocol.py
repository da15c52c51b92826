"""uvicorn's HTTP protocol with limits that it lacks: on headers, in size and time, and on clients that do not read."""

import asyncio
import random
from dataclasses import dataclass
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


@dataclass(frozen=True, slots=True)
class HttpLimits:
    max_header_bytes: int = 32 << 10
    header_timeout_s: float = 10.0
    """Longest span from connection, or the first byte of a request, to the end of its headers: ends slow-loris clients.
    Each gets up to a quarter less, by chance: thousands that came together would end, and come back, at one moment."""
    max_at_once: int = 16
    """Requests of one connection that are not answered yet; clients that send more are cut off."""
    write_timeout_s: float = 60.0
    """Time in which a client reads nothing of an answer that waits for it; its connection is cut then."""


_HEAD_SLICE, _SLICE = 16 << 10, 64 << 10
"""Bytes that are parsed at once, within headers and elsewhere: headers cost time by their number, and a read may bring
256 KiB of them; parts of a body are cheap, and each is added to those before."""

_SPREAD = 0.25
_LOOKS = 4
"""In which the time of a client that reads nothing is counted: while this process itself is stopped, no client is slow,
and one look comes late however long that was."""


class TooManyRequestsError(Exception):
    """A connection has too many requests at once; the parser reports it as what is no request."""


def bounded(limits: HttpLimits) -> type[HttpToolsProtocol]:
    """The protocol for `uvicorn.Config.http`."""

    class Bounded(BoundedHttpProtocol):
        LIMITS = limits

    return Bounded


class BoundedHttpProtocol(HttpToolsProtocol):
    LIMITS = HttpLimits()

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._head_timer: asyncio.TimerHandle | None = None
        self._head_bytes = 0
        self._unanswered = 0
        self._unread_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_is_here()
        self._is_read()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        start = 0
        while start < len(data) and not self.transport.is_closing():
            part = data[start : start + (_SLICE if self._head_timer is None else _HEAD_SLICE)]
            start += len(part)
            super().data_received(part)
            if self._head_timer is not None:
                self._head_bytes += len(part)
                if self._head_bytes > self.LIMITS.max_header_bytes:
                    self._refuse(b"431 Request Header Fields Too Large")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._head_timer is None:
            self._expect_head()

    def on_headers_complete(self) -> None:
        self._head_is_here()
        if self._unanswered >= self.LIMITS.max_at_once:
            raise TooManyRequestsError
        self._unanswered += 1
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        self._unanswered -= 1
        super().on_response_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._unread_timer is None:
            self._expect_read()

    def resume_writing(self) -> None:
        self._is_read()
        super().resume_writing()

    def _expect_head(self) -> None:
        self._head_bytes = 0
        most_s = self.LIMITS.header_timeout_s * random.uniform(1 - _SPREAD, 1)  # noqa: S311 - nobody gains by a guess
        self._head_timer = self.loop.call_later(most_s, self._refuse, b"408 Request Timeout")

    def _head_is_here(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _expect_read(self) -> None:
        self._look_again(self.transport.get_write_buffer_size(), _LOOKS)

    def _look_again(self, held: int, looks: int) -> None:
        look_s = self.LIMITS.write_timeout_s / _LOOKS
        self._unread_timer = self.loop.call_later(look_s, self._look_if_read, held, looks - 1)

    def _look_if_read(self, held: int, looks: int) -> None:
        """Writing resumes only once nearly all is read, which takes slow clients long: what they read counts."""
        if self.transport.get_write_buffer_size() < held:
            self._expect_read()
        elif looks:
            self._look_again(held, looks)
        else:
            self.transport.abort()

    def _is_read(self) -> None:
        if self._unread_timer is not None:
            self._unread_timer.cancel()
            self._unread_timer = None

    def _refuse(self, status: bytes) -> None:
        self._head_is_here()
        if not self.transport.is_closing():
            self.transport.write(b"HTTP/1.1 " + status + b"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            self.transport.close()
