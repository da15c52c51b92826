"""The console's bundle, as `make web` leaves it beside this module: read once, served from memory."""

import gzip
import mimetypes
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from control.api.caller import COOKIE
from control.api.guarded_route import PREFIX

BUNDLE = Path(__file__).with_name("bundle")
_INDEX = "/index.html"
_NONCE = b"MEDLEY-CSP-NONCE"
"""What web/vite.config.ts writes where the nonce of an answer goes."""
_SESSION = b"MEDLEY-SESSION"
"""What web/index.html has where the page learns whether its browser has a session: a request would be refused."""
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_FOR_EVER = "public, max-age=31536000, immutable"
_NOT_BUILT = "the console is not built: run `make web` where Medley is installed from, then start this process again"
_NO_PAGES = ("/api", "/docs", "/redoc")
"""Where programs look for an API's own pages: they are told where its document is."""
_WORTH_PACKING = 1024


@dataclass(frozen=True, slots=True)
class _Asset:
    media_type: str
    content: bytes
    packed: bytes
    """The same by gzip; empty: not worth it."""


class Console:
    """ASGI app for what no route of the API answers: files of the bundle, and for every other path its page, which
    finds the way itself, so that a link leads to where it was made."""

    def __init__(self, bundle: Path) -> None:
        self._files: Mapping[str, _Asset] = {
            f"/{path.relative_to(bundle).as_posix()}": _read(path)
            for path in sorted(bundle.rglob("*"))
            if path.is_file()
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise HTTPException(404)
        await self._answer(scope["method"], scope["path"], Headers(scope=scope))(scope, receive, send)

    def _answer(self, method: str, path: str, headers: Headers) -> Response:
        if method not in ("GET", "HEAD") or path in _NO_PAGES or path.startswith("/api/"):
            raise HTTPException(404, f"there is no {path}: {PREFIX}/openapi.json says what there is")
        if _INDEX not in self._files:
            raise HTTPException(404, _NOT_BUILT)
        file = self._files.get(path)
        if file is None and "." in path.rpartition("/")[2]:
            raise HTTPException(404)
        if file is None or path == _INDEX:
            return self._page(COOKIE in headers.get("cookie", ""))
        caching = {"Cache-Control": _FOR_EVER, "Vary": "Accept-Encoding"} if path.startswith("/assets/") else {}
        if file.packed and "gzip" in headers.get("accept-encoding", ""):
            return Response(file.packed, media_type=file.media_type, headers=caching | {"Content-Encoding": "gzip"})
        return Response(file.content, media_type=file.media_type, headers=caching)

    def _page(self, has_session: bool) -> Response:
        nonce = secrets.token_urlsafe(16)
        content = self._files[_INDEX].content.replace(_NONCE, nonce.encode())
        content = content.replace(_SESSION, b"some" if has_session else b"none")
        policy = {"Content-Security-Policy": _POLICY.format(nonce=nonce)}
        return Response(content, media_type="text/html", headers=policy)


def _read(path: Path) -> _Asset:
    content = path.read_bytes()
    media_type = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    packed = b"" if len(content) < _WORTH_PACKING or path.suffix == ".woff2" else gzip.compress(content, mtime=0)
    return _Asset(media_type, content, packed)
