"""Asks the control plane's API for runs of workflows."""

import ssl
from typing import TypeVar

import httpx
import msgspec
from msgspec import Raw, Struct

from control.gateway.api_error import ApiError, unauthorized, unavailable
from control.gateway.key_limits import Headers
from control.gateway.runs.run_view import RunView

_TIMEOUT = httpx.Timeout(30.0, connect=5.0)
_LIMITS = httpx.Limits(max_connections=64, max_keepalive_connections=16)
_MOST_BYTES = 128 << 20
"""Of an answer: what a run returns has 16 MiB as MessagePack, and up to six letters of JSON for a byte of it."""
_MOST_DETAIL = 2000
Document = TypeVar("Document", bound=Struct)


class _Problem(Struct, frozen=True):
    detail: str = ""


class RunRelay:
    """What a client may do there, its own key decides, which goes along. Make it on a running loop."""

    def __init__(self, api_url: str) -> None:
        # No proxy of the environment, and no redirect: keys of clients go to the API alone.
        tls = ssl.create_default_context()
        base = f"{api_url.rstrip('/')}/api/v1"
        self._client = httpx.AsyncClient(
            base_url=base, verify=tls, trust_env=False, follow_redirects=False, timeout=_TIMEOUT, limits=_LIMITS
        )

    async def start(self, headers: Headers, workflow: str, arguments: Raw) -> RunView:
        """Start a run. `headers`: the client's, that go along. Raises ApiError."""
        body = msgspec.json.encode({"workflow": workflow, "arguments": arguments})
        return await self._asked("POST", "/client-runs", (*headers, (b"content-type", b"application/json")), body)

    async def look(self, headers: Headers, run: str, after: int) -> RunView:
        """Look at a run. `after`: `seq` of what it emitted last. Raises ApiError."""
        return await self._asked("GET", f"/client-runs/{run}?after={after}", headers, None)

    async def close(self) -> None:
        await self._client.aclose()

    async def _asked(self, method: str, path: str, headers: Headers, body: bytes | None) -> RunView:
        try:
            async with self._client.stream(method, path, headers=headers, content=body) as response:
                content = bytearray()
                async for part in response.aiter_bytes():
                    content += part
                    if len(content) > _MOST_BYTES:
                        raise _too_large()
        except (httpx.HTTPError, OSError):
            raise unavailable("The control plane cannot be reached; runs that were started go on") from None
        if response.is_success:
            return _decoded(content, RunView)
        raise _refused(response.status_code, _decoded(content, _Problem).detail[:_MOST_DETAIL])


def _decoded(content: bytearray, kind: type[Document]) -> Document:
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.MsgspecError:
        raise ApiError(502, "server_error", "What answers for the control plane is no API of this release") from None


def _refused(status: int, detail: str) -> ApiError:
    """Return what a client is told that the API refused."""
    if status == 401:
        return unauthorized("The control plane does not know your API key: send one of the project of the workflow")
    if status == 404:
        return ApiError(404, "invalid_request_error", detail, code="not_found")
    if status == 422:
        return ApiError(400, "invalid_request_error", detail, param="arguments")
    if 400 <= status < 500:
        return ApiError(status, "invalid_request_error", detail)
    return unavailable(f"The control plane cannot answer: {detail}" if detail else "The control plane cannot answer")


def _too_large() -> ApiError:
    return ApiError(502, "server_error", f"The run's answer is larger than {_MOST_BYTES >> 20} MiB of JSON")
