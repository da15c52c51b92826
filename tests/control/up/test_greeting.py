"""`medley up` says that it is ready when the gateway serves, and not before."""

import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

from control.access.secret import Secret
from control.up.greeting import Greeting
from control.up.steps import Steps

KEY = Secret("medley_0123456789ab_" + "5" * 64)


class _Gateway(HTTPServer):
    """Answers /readyz with whatever is in `models`; `asked` says that it was."""

    def __init__(self) -> None:
        self.models: list[str] = []
        self.asked = threading.Semaphore(0)
        super().__init__(("127.0.0.1", 0), _Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, _Gateway)
        self.send_response(200 if self.server.models else 503)
        self.end_headers()
        self.wfile.write(json.dumps({"ready": self.server.models}).encode())
        self.server.asked.release()

    def log_message(self, *_: object) -> None:
        """Quiet."""


def test_it_waits_for_all_instances_and_for_the_gateway_to_find_them() -> None:
    said: list[str] = []
    gateway = _Gateway()

    async def scenario() -> None:
        greeting = Greeting(Steps(said.append), gateway.url, KEY, ["m"], 2)
        greeting.ready("i1")
        greeting.gone("i1")
        greeting.ready("i2")
        assert not gateway.asked.acquire(blocking=False)
        greeting.ready("i1")
        await asyncio.to_thread(gateway.asked.acquire)
        gateway.models = ["other"]
        await asyncio.to_thread(gateway.asked.acquire)
        assert said == []
        gateway.models = ["m", "other"]
        async with asyncio.timeout(30):
            while len(said) < 5:
                await asyncio.sleep(0)
        greeting.ready("i3")
        greeting.close()

    try:
        asyncio.run(scenario())
    finally:
        gateway.shutdown()
        gateway.server_close()
    assert len(said) == 5
    assert said[0].startswith("\nready after ")
    assert f"{gateway.url}/v1" in said[0]
    assert KEY.reveal() in said[1]
