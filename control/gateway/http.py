"""The little of ASGI that is needed: a bounded body, a request's headers, an answer."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from control.gateway.api_error import ApiError
from control.gateway.body_budget import BodyHold

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

JSON = (b"content-type", b"application/json")
_CLOSE = (b"connection", b"close")


class ClientGoneError(Exception):
    """The client left before its request was whole."""


def header(scope: Scope, name: bytes) -> bytes:
    """The first of that (lower-case) name; empty when there is none."""
    value: bytes
    for key, value in scope["headers"]:
        if key == name:
            return value
    return b""


async def read_all(scope: Scope, receive: Receive, max_bytes: int, timeout_s: float, hold: BodyHold) -> bytes:
    """The body. Raises ApiError 413, 408, or 503 where there is no memory for it: what is left unread makes the
    connection useless, so each closes it."""
    length = header(scope, b"content-length")
    if length.isdigit() and int(length) > max_bytes:
        raise _too_large(max_bytes)
    parts, total, has_more = list[bytes](), 0, True
    try:
        async with asyncio.timeout(timeout_s):
            while has_more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientGoneError
                parts.append(message["body"])
                hold.add(len(parts[-1]))
                has_more = message.get("more_body", False)
                total += len(parts[-1])
                if total > max_bytes:
                    raise _too_large(max_bytes)
    except TimeoutError:
        raise ApiError(
            408, "invalid_request_error", "The body did not arrive in time", code="timeout", headers=(_CLOSE,)
        ) from None
    return b"".join(parts)


async def answer(send: Send, status: int, body: bytes, headers: tuple[tuple[bytes, bytes], ...]) -> None:
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [length, *headers]})
    await send({"type": "http.response.body", "body": body})


def _too_large(max_bytes: int) -> ApiError:
    return ApiError(
        413,
        "invalid_request_error",
        f"The body is larger than {max_bytes} bytes",
        code="request_too_large",
        headers=(_CLOSE,),
    )
