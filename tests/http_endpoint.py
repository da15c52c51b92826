"""HTTP servers of our own on this machine, that speak what a vendor, a gateway or a proxy would."""

import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Said:
    body: Any
    """Bytes as they are; anything else as JSON."""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Endpoint:
    url: str
    asked: list[Asked] = field(default_factory=list)


@contextmanager
def running(server: HTTPServer) -> Iterator[str]:
    """Its URL."""
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def serving(answer: Callable[[Asked], Said | None], tls: ssl.SSLContext | None = None) -> Iterator[Endpoint]:
    """Where `answer` says nothing, the connection is cut without an answer."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # else what follows the headers waits 40 ms for word that these came

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            asked = Asked(self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body)
            endpoint.asked.append(asked)
            said = answer(asked)
            if said is None:
                self.close_connection = True
                return
            content = said.body if isinstance(said.body, bytes) else json.dumps(said.body).encode()
            self.send_response(said.status)
            for name, value in {"content-type": "application/json", **said.headers}.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_DELETE = _serve  # noqa: N815 - as http.server calls them

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
        # A client that refuses the certificate is no error of this server.
        server.handle_error = lambda *_: None  # type: ignore[method-assign]
    with running(server) as url:
        endpoint = Endpoint(url if tls is None else url.replace("http:", "https:"))
        yield endpoint
