"""Clients with keys that ask a gateway at steady rates, as a process of their own: what became of every request.

    python -m bench.keyed_load URL SECONDS KEY=RATE [KEY=RATE …]

Each key asks RATE times a second for a stream, on connections that stay open, and comes again whatever it was told: a
client that obeys `Retry-After` is the lighter load. Prints one line of JSON: by key, the times to the first token of
what was served, and how often each refusal came and how many of them lacked `Retry-After`.
"""

import argparse
import asyncio
import json
import random
import time
from collections import deque
from dataclasses import asdict, dataclass, field
from urllib.parse import urlsplit

import uvloop


@dataclass(slots=True)
class Outcome:
    """What became of the requests of one key."""

    first_token_s: list[float] = field(default_factory=list)
    statuses: dict[str, int] = field(default_factory=dict)
    without_retry_after: int = 0
    """Refusals."""
    broken: int = 0
    """Answers that ended early."""


class Client:
    """One key's requests."""

    def __init__(self, url: str, key: str, body: dict[str, object], warm_up_s: float) -> None:
        parts = urlsplit(url)
        self._host, self._port = str(parts.hostname), int(parts.port or 80)
        raw = json.dumps(body).encode()
        head = f"POST {parts.path} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {key}\r\n"
        self._request = f"{head}content-type: application/json\r\ncontent-length: {len(raw)}\r\n\r\n".encode() + raw
        self._free: deque[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = deque()
        self._counts_from_s = time.monotonic() + warm_up_s
        self.outcome = Outcome()

    async def ask(self) -> None:
        began_s = time.monotonic()
        try:
            connection = self._free.pop() if self._free else await asyncio.open_connection(self._host, self._port)
            reader, writer = connection
            writer.write(self._request)
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            status = head.split(b" ", 2)[1].decode()
            if b"transfer-encoding: chunked" in head:
                first_s = await self._stream(reader)
                if began_s >= self._counts_from_s:
                    self.outcome.first_token_s.append(first_s - began_s)
            else:
                length = int(head.split(b"content-length: ", 1)[1].split(b"\r\n", 1)[0])
                await reader.readexactly(length)
                self.outcome.without_retry_after += status != "200" and b"\r\nretry-after: " not in head
            if began_s >= self._counts_from_s:
                self.outcome.statuses[status] = self.outcome.statuses.get(status, 0) + 1
            self._free.append(connection)
        except (OSError, asyncio.IncompleteReadError, IndexError):
            self.outcome.broken += 1

    @staticmethod
    async def _stream(reader: asyncio.StreamReader) -> float:
        """Read a stream to its end; when its first event came."""
        first_s, last = 0.0, b""
        while True:
            size = int(await reader.readline(), 16)
            chunk = await reader.readexactly(size + 2)
            first_s = first_s or time.monotonic()
            if size == 0:
                if b"[DONE]" not in last:
                    raise IndexError("the stream ended without its last event")
                return first_s
            last = chunk


async def drive(client: Client, per_s: float, until_s: float) -> None:
    """Ask at random times, `per_s` a second in the mean."""
    draw, tasks = random.Random(per_s), set[asyncio.Task[None]]()
    due_s = time.monotonic()
    while due_s < until_s:
        due_s += draw.expovariate(per_s)
        await asyncio.sleep(max(0.0, due_s - time.monotonic()))
        task = asyncio.create_task(client.ask())
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    if tasks:
        await asyncio.wait(tasks, timeout=60)


async def load(url: str, seconds: float, rates: dict[str, float], warm_up_s: float, tokens: int) -> dict[str, Outcome]:
    body = {"model": "echo", "prompt": "What is it? " * 20, "max_tokens": tokens, "stream": True, "ignore_eos": True}
    clients = {key: Client(url, key, body, warm_up_s) for key in rates}
    until_s = time.monotonic() + seconds
    await asyncio.gather(*(drive(clients[key], rate, until_s) for key, rate in rates.items()))
    return {key: client.outcome for key, client in clients.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("seconds", type=float)
    parser.add_argument("rates", nargs="+", metavar="KEY=RATE")
    parser.add_argument("--warm-up-s", type=float, default=0.0, help="requests that began before are not counted")
    parser.add_argument("--tokens", type=int, default=16, help="length of an answer")
    given = parser.parse_args()
    rates = {key: float(rate) for key, rate in (each.split("=") for each in given.rates)}
    found = uvloop.run(load(given.url, given.seconds, rates, given.warm_up_s, given.tokens))
    print(json.dumps({key: asdict(outcome) for key, outcome in found.items()}))


if __name__ == "__main__":
    main()
