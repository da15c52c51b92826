"""An answer as server-sent events. The status goes out with the first, so that what fails before has its own."""

from collections.abc import Awaitable, Callable

from control.gateway.http import Message
from control.gateway.reply import Piece, Reply

EVENT_HEADERS = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)


class EventStream:
    def __init__(
        self, send: Callable[[Message], Awaitable[None]], headers: tuple[tuple[bytes, bytes], ...], reply: Reply
    ) -> None:
        self.has_status = False
        """It is too late for another one."""
        self._send = send
        self._headers = headers
        self.reply = reply
        self._is_open = False

    async def comment(self, text: bytes) -> None:
        """Keeps the connection alive; clients do not look at it."""
        await self._begin()
        await self._body(b": " + text + b"\n\n")

    async def piece(self, piece: Piece, choice: int) -> None:
        await self._open()
        await self._body(self.reply.chunk(piece, choice))

    async def event(self, event: bytes) -> None:
        await self._open()
        await self._body(event)

    async def end(self, last: bytes) -> None:
        await self._open()
        await self._send({"type": "http.response.body", "body": last})

    async def fail(self, event: bytes) -> None:
        """Once the status is out."""
        await self._send({"type": "http.response.body", "body": event})

    async def _begin(self) -> None:
        if not self.has_status:
            self.has_status = True
            headers = [*EVENT_HEADERS, *self._headers]
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})

    async def _open(self) -> None:
        if not self._is_open:
            self._is_open = True
            await self._begin()
            opening = self.reply.opening()
            if opening:
                await self._body(opening)

    async def _body(self, body: bytes) -> None:
        await self._send({"type": "http.response.body", "body": body, "more_body": True})
