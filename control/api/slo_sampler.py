"""Samples the latencies of gateways every minute. Any number of API processes may."""

import asyncio
import logging
import math
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from ipaddress import ip_address
from urllib.parse import urlsplit

import httpx
from starlette.concurrency import run_in_threadpool

from control.db.database import Database
from control.db.errors import DatabaseError
from control.db.slo_samples import Judged, LatencyHistogram, PostgresSloSamples, SloSample
from control.fleet.latency import GatewayFigures, Histogram, gateway_figures

_log = logging.getLogger(__name__)
_TIMEOUT_S = 5.0
_MAX_BYTES = 16 << 20


class SloSampler:
    def __init__(self, database: Database, gateways: tuple[str, ...], clock: Callable[[], datetime]) -> None:
        """`gateways`: their URLs, or those of names that lead to several."""
        self._samples = PostgresSloSamples(database)
        self._gateways = gateways
        self._clock = clock
        self._before: dict[str, tuple[datetime, Mapping[str, GatewayFigures]]] = {}

    async def run(self) -> None:
        """Sample every minute, until cancelled."""
        async with httpx.AsyncClient(timeout=_TIMEOUT_S) as client:
            while self._gateways:
                now = self._clock()
                await asyncio.sleep(60 - now.second - now.microsecond / 1e6)
                asked = [each for url in self._gateways for each in await each_gateway(url)]
                await asyncio.gather(*(self.look(client, gateway) for gateway in asked))
                self._before = {gateway: self._before[gateway] for gateway in asked if gateway in self._before}

    async def look(self, client: httpx.AsyncClient, gateway: str) -> None:
        """Store what a gateway has answered since the last look; the first look, and one after a pause, only sets the
        beginning."""
        try:
            figures = gateway_figures(await _text(client, gateway))
        except (httpx.HTTPError, ValueError) as error:
            _log.warning("gateway %s does not answer with its latencies: %s", gateway, error)
            return
        minute = self._clock().replace(second=0, microsecond=0)
        before_at, before = self._before.get(gateway, (None, {}))
        self._before[gateway] = minute, figures
        if before_at != minute - timedelta(minutes=1):
            return
        samples = [_sample(gateway, model, before_at, now, before.get(model)) for model, now in figures.items()]
        try:
            await run_in_threadpool(self._samples.add, samples)
        except DatabaseError as error:
            _log.warning("%s", error)


async def _text(client: httpx.AsyncClient, gateway: str) -> str:
    async with client.stream("GET", f"{gateway.rstrip('/')}/metrics") as answer:
        answer.raise_for_status()
        content = b""
        async for part in answer.aiter_bytes():
            content += part
            if len(content) > _MAX_BYTES:
                raise ValueError("its metrics are too large")
    return content.decode()


def _sample(
    gateway: str, model: str, begins_at: datetime, now: GatewayFigures, before: GatewayFigures | None
) -> SloSample:
    ttft = _since(now.ttft_s, None if before is None else before.ttft_s)
    tpot = _since(now.tpot_s, None if before is None else before.tpot_s)
    return SloSample(gateway, model, begins_at, ttft, tpot, tuple(_judged_since(now, before)))


def _judged_since(now: GatewayFigures, before: GatewayFigures | None) -> Iterator[Judged]:
    for key, (answers, kept) in now.judged.items():
        earlier, earlier_kept = before.judged.get(key, (0.0, 0.0)) if before is not None else (0.0, 0.0)
        if earlier > answers:  # it was started again
            earlier = earlier_kept = 0.0
        if answers > earlier:
            yield Judged(*key, answers - earlier, kept - earlier_kept)


def _since(now: Histogram, before: Histogram | None) -> LatencyHistogram:
    """A gateway that was started again counts from nothing."""
    earlier = before.counts if before is not None and before.bounds == now.bounds else ()
    if not earlier or any(new < old for new, old in zip(now.counts, earlier, strict=True)):
        earlier = (0.0,) * len(now.counts)
    cumulative = [new - old for new, old in zip(now.counts, earlier, strict=True)]
    counts = [count - below for count, below in zip(cumulative, [0.0, *cumulative], strict=False)]
    return LatencyHistogram(tuple(None if math.isinf(b) else b for b in now.bounds), tuple(counts))


async def each_gateway(url: str) -> list[str]:
    """Return the URLs of all gateways behind one name, as service discovery gives them: `url` alone where TLS is
    spoken, since the certificate is the name's, and where nobody knows the name."""
    parts = urlsplit(url)
    if parts.scheme != "http" or parts.hostname is None:
        return [url]
    try:
        found = await asyncio.get_running_loop().getaddrinfo(parts.hostname, None, type=socket.SOCK_STREAM)
    except OSError:
        return [url]
    return at_addresses(url, {str(place[0]) for *_, place in found})


def at_addresses(url: str, addresses: Iterable[str]) -> list[str]:
    """Return the URL at each address. A gateway has one address of a family: with one of each, it is one gateway."""
    both = sorted(addresses)
    old, new = ([each for each in both if ip_address(each).version == version] for version in (4, 6))
    most = max(old, new, key=len)
    if len(most) < 2:
        return [url]
    parts = urlsplit(url)
    port = "" if parts.port is None else f":{parts.port}"
    hosts = most if most is old else [f"[{each}]" for each in most]
    return [parts._replace(netloc=f"{host}{port}").geturl() for host in hosts]
