"""A chat with a gateway on behalf of a browser, which may speak to this API only."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import httpx

from control.api.problem import ApiError

_TIMEOUT = httpx.Timeout(10.0, read=600.0)
"""A model that nothing serves yet may take minutes to its first token."""
_MOST_ERROR_BYTES = 1 << 16
_MOST_LINE = 1 << 20
_EXPLAIN = {"x-medley-explain": "1"}
"""The gateway then says which instances answered, as a comment of the stream."""
_SAID_BY = ": medley "


@dataclass(slots=True)
class ChatRoute:
    """What is known of an answer at its end."""

    served_by: list[list[str]] = field(default_factory=list)
    """Instances of each attempt; the last one answered."""
    prompt_tokens: int = 0
    output_tokens: int = 0


Told = Callable[[ChatRoute], dict[str, Any]]
"""Makes the last event of a chat; may block."""


async def open_chat(
    kept: AsyncExitStack, gateways: Sequence[str], key: str, body: dict[str, Any], told: Told
) -> AsyncIterator[bytes]:
    """Ask the first of `gateways` that can be reached; return the answer's events, as OpenAI's API has them, and
    `event: route` with what `told` says. `kept`: closes the connection, however far the events were read.

    Raises ApiError where none can be reached, or the one that is refuses."""
    if not gateways:
        raise ApiError(409, "no-gateway", "this API knows no gateway: start it with `medley api --gateway URL`")
    headers = _EXPLAIN | ({"authorization": f"Bearer {key}"} if key else {})
    client = await kept.enter_async_context(httpx.AsyncClient(timeout=_TIMEOUT))
    answer = await _first_reached(kept, client, gateways, headers, body)
    if answer.status_code != 200:
        raise _refused(answer.status_code, await _beginning(answer))
    return _events(answer, told)


async def _first_reached(
    stack: AsyncExitStack, client: httpx.AsyncClient, gateways: Sequence[str], headers: dict[str, str], body: Any
) -> httpx.Response:
    for place, url in enumerate(gateways):
        try:
            asked = client.stream("POST", f"{url.rstrip('/')}/v1/chat/completions", json=body, headers=headers)
            return await stack.enter_async_context(asked)
        except httpx.HTTPError as error:
            if place == len(gateways) - 1:
                raise ApiError(
                    503, "unavailable", f"no gateway can be reached: {error}", headers={"Retry-After": "5"}
                ) from None
    raise AssertionError


async def _events(answer: httpx.Response, told: Told) -> AsyncIterator[bytes]:
    route = ChatRoute()
    try:
        async for line in answer.aiter_lines():
            if line.startswith(_SAID_BY):
                route.served_by = _served_by(line.removeprefix(_SAID_BY))
            elif line.startswith("data: "):
                _count(route, line)
                yield f"{line}\n\n".encode()
            elif line.startswith(":"):  # somebody waits for an instance
                yield f"{line}\n\n".encode()
    except httpx.HTTPError as error:
        broken = {"error": {"message": f"the gateway did not end its answer: {error}"}}
        yield f"data: {json.dumps(broken)}\n\n".encode()
        return
    last = await asyncio.to_thread(told, route)
    yield f"event: route\ndata: {json.dumps(last)}\n\n".encode()


def _count(route: ChatRoute, line: str) -> None:
    """Usage comes with an event of its own."""
    if '"usage":{' not in line or len(line) > _MOST_LINE:
        return
    try:
        usage = json.loads(line.removeprefix("data: "))["usage"]
        route.prompt_tokens, route.output_tokens = int(usage["prompt_tokens"]), int(usage["completion_tokens"])
    except (ValueError, KeyError, TypeError):
        return


def _served_by(text: str) -> list[list[str]]:
    try:
        first = json.loads(text)["served_by"][0]
        return [[str(instance) for instance in attempt] for attempt in first]
    except (ValueError, KeyError, TypeError, IndexError):
        return []


async def _beginning(answer: httpx.Response) -> bytes:
    content = b""
    async for part in answer.aiter_bytes():
        content += part
        if len(content) > _MOST_ERROR_BYTES:
            break
    return content


def _refused(status: int, content: bytes) -> ApiError:
    """What a gateway refuses is no matter of this API's session: a 401 of it must not sign anybody out."""
    try:
        said = str(json.loads(content)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        said = f"it answered {status}"
    return ApiError(409, "gateway-refused", f"the gateway refused: {said[:500]}", facts={"status": status})
