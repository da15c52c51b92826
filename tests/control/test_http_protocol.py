"""What the HTTP protocol of gateway and API allows clients that read slowly, on a real connection."""

import asyncio
import socket
from contextlib import suppress

import uvicorn

from control.http_protocol import HttpLimits, bounded

PATIENCE_S = 60.0
ANSWER_BYTES = 24 << 20
"""More than the buffers of the kernel take: several times what is read within the time-out below."""
TIMEOUT_S = 0.3


async def answer(_scope: dict[str, object], _receive: object, send: object) -> None:
    length = str(ANSWER_BYTES).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", length)]})
    await send({"type": "http.response.body", "body": bytes(ANSWER_BYTES)})


def read_of_answer(pause_s: float | None) -> int:
    """Bytes that a client got which reads so often, 256 KiB at once; None: only once its connection is cut."""

    async def scenario() -> int:
        protocol = bounded(HttpLimits(write_timeout_s=TIMEOUT_S))
        cut = asyncio.Event()

        class Watched(protocol):
            def connection_lost(self, exc: Exception | None) -> None:
                super().connection_lost(exc)
                cut.set()

        listener = socket.create_server(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(answer, http=Watched, lifespan="off", log_level="error"))
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        reader, writer = await asyncio.open_connection(*listener.getsockname(), limit=64 << 10)
        try:
            writer.write(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            if pause_s is None:
                await cut.wait()
            got = 0
            with suppress(ConnectionError):
                while data := await reader.read(256 << 10):
                    got += len(data)
                    await asyncio.sleep(pause_s or 0)
            return got
        finally:
            writer.close()
            server.should_exit = True
            await serving

    return asyncio.run(asyncio.wait_for(scenario(), PATIENCE_S))


def test_a_client_that_reads_all_the_time_gets_a_large_answer_however_long_it_takes():
    assert read_of_answer(0.005) > ANSWER_BYTES


def test_a_client_that_reads_nothing_is_cut_off():
    assert read_of_answer(None) < ANSWER_BYTES
