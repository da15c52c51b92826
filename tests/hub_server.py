"""A hub on this machine that speaks the part of the Hugging Face protocol that its client asks for files with."""

import hashlib
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.http_endpoint import running

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Hub:
    """`files`: repository → file → what is in it. All of them are at `COMMIT`, which `main` names."""

    files: Mapping[str, Mapping[str, bytes]]
    token: str = ""
    """That everybody has to show."""
    damaged: set[str] = field(default_factory=set)
    """Files that arrive with a flipped bit."""
    sizes: dict[str, int] = field(default_factory=dict)
    """File → bytes that it is said to have, of those that are not as large as they claim."""
    ahead_s: float = 0.0
    """Of this machine's clock."""
    sent: list[str] = field(default_factory=list)
    """Files that were sent, in order."""
    url: str = ""


def use(hub: Hub, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on the client asks `hub`, in this process and in those it starts, and keeps its files in `home`."""
    for name, value in {"HF_ENDPOINT": hub.url, "HF_HOME": str(home), "HF_HUB_OFFLINE": "0", "HF_TOKEN": ""}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)  # other tests import it offline


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@contextmanager
def serving(hub: Hub) -> Iterator[Hub]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # else what follows the headers waits 40 ms for word that these came

        def do_HEAD(self) -> None:
            self._answer(body=False)

        def do_GET(self) -> None:
            self._answer(body=True)

        def log_message(self, *_: Any) -> None: ...

        def date_time_string(self, timestamp: float | None = None) -> str:
            return super().date_time_string((time.time() if timestamp is None else timestamp) + hub.ahead_s)

        def _answer(self, body: bool) -> None:
            name, _, rest = self.path.lstrip("/").partition("/resolve/")
            revision, _, file = rest.partition("/")
            if hub.token and self.headers.get("Authorization") != f"Bearer {hub.token}":
                self._refuse(401, "GatedRepo")
            elif name not in hub.files:
                self._refuse(404, "RepoNotFound")
            elif revision not in ("main", COMMIT):
                self._refuse(404, "RevisionNotFound")
            elif file not in hub.files[name]:
                self._refuse(404, "EntryNotFound")
            else:
                self._send(file, hub.files[name][file], body)

        def _refuse(self, status: int, code: str) -> None:
            self.send_response(status)
            self.send_header("X-Error-Code", code)
            self.send_header("X-Repo-Commit", COMMIT)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def _send(self, file: str, content: bytes, body: bool) -> None:
            digest = hashlib.sha256(content).hexdigest()
            if file in hub.damaged:
                content = content[:-1] + bytes([content[-1] ^ 1])
            self.send_response(200)
            self.send_header("X-Repo-Commit", COMMIT)
            self.send_header("ETag", f'"{digest}"')
            if file in hub.sizes:
                self.send_header("X-Linked-Size", str(hub.sizes[file]))
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if body:
                hub.sent.append(file)
                self.wfile.write(content)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    with running(server) as hub.url:
        yield hub
