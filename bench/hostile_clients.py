"""Clients that do a gateway harm, as a process of their own, until they are ended.

    python -m bench.hostile_clients URL KEY [--kinds idle slow-head …]

Prints a line of JSON, by kind how many connections there are, once they have begun; some hold connections, others come
again and again at a rate that leaves the machine's processors to others.
"""

import argparse
import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from urllib.parse import urlsplit

import uvloop

IDLE = 2000
SLOW, UNREAD = 100, 60
LARGE_BYTES = 100 << 20
CHUNK = b"x" * (64 << 10)
PAUSE_S = 0.2
"""Between two requests of a client that comes again and again."""


class Hostile:
    def __init__(self, url: str, key: str) -> None:
        parts = urlsplit(url)
        self._host, self._port = str(parts.hostname), int(parts.port or 80)
        self._bearer = f"authorization: Bearer {key}\r\n"

    def head(self, length: int) -> bytes:
        return f"POST /v1/completions HTTP/1.1\r\nhost: x\r\n{self._bearer}content-length: {length}\r\n\r\n".encode()

    async def idle(self) -> None:
        """Connects and says nothing, again whenever it is cut off."""
        while True:
            with suppress(OSError):
                reader, writer = await asyncio.open_connection(self._host, self._port)
                await reader.read()
                writer.close()
            await asyncio.sleep(PAUSE_S)

    async def slow_head(self) -> None:
        """Sends a header, a byte at a time."""
        await self._slowly(b"GET /v1/models HTTP/1.1\r\nx-slow: ")

    async def slow_body(self) -> None:
        """Sends a body, a byte at a time."""
        await self._slowly(self.head(1 << 20))

    async def unread(self) -> None:
        """Asks for a long stream and reads none of it."""
        body = {"model": "slow", "prompt": "abcd" * 50, "max_tokens": 7000, "stream": True, "ignore_eos": True}
        raw = json.dumps(body).encode()
        await self._held(self.head(len(raw)) + raw)

    async def large(self) -> None:
        """Announces 100 MB and sends them."""
        await self._sent(self.head(LARGE_BYTES), LARGE_BYTES)

    async def unannounced(self) -> None:
        """Sends as much as it can, in chunks, without saying how much it will be."""
        chunked = f"POST /v1/completions HTTP/1.1\r\nhost: x\r\n{self._bearer}transfer-encoding: chunked\r\n\r\n"
        await self._sent(chunked.encode(), LARGE_BYTES, b"10000\r\n" + CHUNK + b"\r\n")

    async def almost(self) -> None:
        """Sends as much as a body may have, of one text that is no prompt for any model here."""
        size = 2 << 20
        body = b'{"model": "echo", "prompt": "' + b"x" * size + b'", "max_tokens": 1}'
        await self._sent(self.head(len(body)) + body, 0)

    async def many_headers(self) -> None:
        await self._sent(b"GET /v1/models HTTP/1.1\r\n", 8 << 20, b"x-%d: y\r\n" % 7 * 4096)

    async def deep(self) -> None:
        """Sends JSON as deep as it is long."""
        body = b'{"model": "echo", "messages": ' + b"[" * (1 << 20)
        await self._sent(self.head(len(body)) + body, 0)

    async def many_at_once(self) -> None:
        """Sends thousands of requests without waiting for an answer."""
        await self._sent(f"GET /v1/models HTTP/1.1\r\nhost: x\r\n{self._bearer}\r\n".encode() * 2000, 0)

    async def _held(self, first: bytes) -> None:
        _, writer = await asyncio.open_connection(self._host, self._port, limit=1)
        if first:
            writer.write(first)
        await asyncio.sleep(3600)

    async def _slowly(self, first: bytes) -> None:
        while True:
            with suppress(OSError):
                _, writer = await asyncio.open_connection(self._host, self._port)
                writer.write(first)
                while not writer.is_closing():
                    await asyncio.sleep(1.0)
                    writer.write(b"x")
                    await writer.drain()
            await asyncio.sleep(PAUSE_S)

    async def _sent(self, first: bytes, more: int, chunk: bytes = CHUNK) -> None:
        """Send again and again, up to `more` bytes behind `first`; whatever is answered is read until it is over."""
        while True:
            with suppress(OSError):
                reader, writer = await asyncio.open_connection(self._host, self._port)
                answer = asyncio.create_task(reader.read(1 << 12))
                try:
                    writer.write(first)
                    for _ in range(more // len(chunk)):
                        if answer.done():
                            break
                        writer.write(chunk)
                        await writer.drain()
                    await asyncio.wait((answer,), timeout=5.0)
                finally:
                    answer.cancel()
                    writer.transport.abort()
            await asyncio.sleep(PAUSE_S)


KINDS: dict[str, tuple[int, Callable[[Hostile], Awaitable[None]]]] = {
    "idle": (IDLE, Hostile.idle),
    "slow-head": (SLOW, Hostile.slow_head),
    "slow-body": (SLOW, Hostile.slow_body),
    "unread": (UNREAD, Hostile.unread),
    "large": (2, Hostile.large),
    "unannounced": (2, Hostile.unannounced),
    "almost": (1, Hostile.almost),
    "many-headers": (2, Hostile.many_headers),
    "deep": (1, Hostile.deep),
    "many-at-once": (1, Hostile.many_at_once),
}
"""Kind → clients at the same time, and what each does."""


async def attack(url: str, key: str, kinds: list[str]) -> None:
    hostile, tasks = Hostile(url, key), []
    for kind in kinds:
        count, act = KINDS[kind]
        for n in range(count):
            tasks.append(asyncio.ensure_future(act(hostile)))
            if n % 50 == 49:
                await asyncio.sleep(0.02)  # no faster than a listener's backlog empties
    await asyncio.sleep(1.0)
    print(json.dumps({kind: KINDS[kind][0] for kind in kinds}), flush=True)
    await asyncio.gather(*tasks)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("key")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    given = parser.parse_args()
    uvloop.run(attack(given.url, given.key, given.kinds))


if __name__ == "__main__":
    main()
