"""Bounds on a request before anybody looks at it: the size of its body, and the time in which it arrives."""

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from control.api.problem import ApiError, problem_response
from control.api.settings import ApiSettings
from control.api.trace import current_trace

_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
)


class Bounds:
    """ASGI middleware. It reads the body, which is small, before the app runs, so that none of its threads waits."""

    def __init__(self, app: ASGIApp, settings: ApiSettings) -> None:
        self._app = app
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                there = {name for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(h for h in _HEADERS if h[0] not in there)]
            await send(message)

        try:
            async with asyncio.timeout(self._settings.body_timeout_s):
                body = await self._body(scope, receive)
        except (ApiError, TimeoutError) as error:
            refusal = error if isinstance(error, ApiError) else _late(self._settings.body_timeout_s)
            refusal.headers["Connection"] = "close"  # the rest of the body is not read
            await problem_response(refusal, scope["path"], current_trace.get())(scope, receive, with_headers)
            return
        if body is None:
            return
        await self._app(scope, _replay(body, receive), with_headers)

    async def _body(self, scope: Scope, receive: Receive) -> bytes | None:
        """Read the body; None when the caller went away. Raises a problem for one that is too large."""
        limit = self._settings.max_body_bytes
        said = dict(scope["headers"]).get(b"content-length", b"0")
        parts, size = [], int(said) if said.isdigit() else 0
        if size > limit:
            raise _large(limit)
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            part = message.get("body", b"")
            size += len(part)
            if size > limit:
                raise _large(limit)
            parts.append(part)
            if not message.get("more_body", False):
                return b"".join(parts)


def _replay(body: bytes, receive: Receive) -> Receive:
    given = False

    async def replayed() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replayed


def _large(limit: int) -> ApiError:
    return ApiError(413, "too-large", f"the body is larger than {limit // 1024} KiB")


def _late(limit_s: float) -> ApiError:
    return ApiError(408, "body-timeout", f"the body did not arrive within {limit_s:g} s")
