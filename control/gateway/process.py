"""The gateway process: its loop, its socket, its end."""

import asyncio
import gc
import json
import os
import secrets
import socket
import ssl
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import uvicorn
import uvloop

from agents.channels.keys import KeyPair
from agents.tracing.spans import spans_of
from control.gateway.app import GatewayApp
from control.gateway.condition import Condition, OwnCondition
from control.gateway.counts import Counts
from control.gateway.dispatcher import Dispatcher
from control.gateway.freed_memory import give_back_freed_memory
from control.gateway.gate import Gate
from control.gateway.generation import Generation
from control.gateway.key_watch import watch_key
from control.gateway.limits import Limits, OwnLimits
from control.gateway.making.made_answers import MadeAnswers
from control.gateway.media.intake import MediaIntake
from control.gateway.media.preprocessor import Preprocessor
from control.gateway.meter import Meter
from control.gateway.metrics import GatewayMetrics
from control.gateway.published import Published
from control.gateway.reporter import Reporter
from control.gateway.request_accounts import RequestAccounts
from control.gateway.runs.run_answers import RunAnswers
from control.gateway.settings import GatewaySettings
from control.gateway.table_keeper import TableKeeper
from control.gateway.tasks.apps import Apps
from control.http_protocol import bounded
from control.http_server import HttpServer
from control.listener import listening, url_of
from control.tls_files import TlsFiles
from policies.admission import Admission
from policies.metered_work import metered_classes

if TYPE_CHECKING:
    from control.gateway.media.fetcher import ImageFetcher
    from control.gateway.runs.run_relay import RunRelay

_SWITCH_S = 0.0005
_YOUNG_OBJECTS = 10_000
"""Objects that are made before the collector looks at them for cycles, of which a request leaves few: by the default of
700 it looks every other request, and costs each 3 % of its time."""
BACKLOG = 2048
"""Connections that may wait to be accepted."""


class ProcessParts(Protocol):
    """What a gateway's process has for itself where it is alone, and shares where it is one of several."""

    @property
    def limits(self) -> Limits: ...

    @property
    def counts(self) -> Counts: ...

    def admission(self, max_wait_s: float) -> Admission: ...

    def condition(self, own: OwnCondition) -> Condition:
        """Return what is answered to who asks how the gateway is."""

    async def listen(self, dispatcher: Dispatcher) -> socket.socket:
        """Return the socket that clients come by; the routing table has been read. Raises OSError."""

    async def close(self) -> None:
        """All answers are over."""


class _OwnParts:
    def __init__(self, listener: socket.socket, *, is_tls: bool) -> None:
        self.limits = OwnLimits()
        self.counts = Counts.of_one()
        self._listener = listener
        self._is_tls = is_tls

    def admission(self, max_wait_s: float) -> Admission:
        return Admission(max_wait_s)

    def condition(self, own: OwnCondition) -> OwnCondition:
        return own

    async def listen(self, _dispatcher: Dispatcher) -> socket.socket:
        print(json.dumps({"url": url_of(self._listener, is_tls=self._is_tls)}), flush=True)
        return self._listener

    async def close(self) -> None:
        pass


def run(host: str, port: int, table: Path, key: Path, settings: GatewaySettings, tls: TlsFiles | None = None) -> None:
    """Serve by this process alone, as `control.gateway.start.start` says."""
    keys = KeyPair.load(key)
    listener = listening(host, port, backlog=BACKLOG)

    async def alone() -> None:
        await serve(_OwnParts(listener, is_tls=tls is not None), table, key, keys, settings, tls)

    run_loop(alone())


def run_loop(main: Coroutine[Any, Any, None]) -> None:
    """Run a process that serves."""
    # Prompts are batched over threads here already; a pool of threads below that only adds wake-ups to each of them.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    # A thread that has encoded a prompt wants the interpreter for a moment, while others' requests keep it busy: with
    # the default of 5 ms that wait is the longest of all that a request meets here.
    sys.setswitchinterval(_SWITCH_S)
    gc.set_threshold(_YOUNG_OBJECTS)
    give_back_freed_memory()
    uvloop.run(main)


async def serve(
    parts: ProcessParts, path: Path, key: Path, keys: KeyPair, settings: GatewaySettings, tls: TlsFiles | None
) -> None:
    """Serve until SIGINT or SIGTERM. `path`: of the routing table. Raises OSError, PepperError."""
    metrics = GatewayMetrics()
    meter = Meter(secrets.token_hex(8), settings.metering_interval_s, settings.max_unstored_intervals, _steady_clock())
    reporter = Reporter(keys, meter, settings.channel, metrics)
    counts = parts.counts
    gate = Gate(parts.admission(settings.max_wait_s), reporter.waits, metrics, counts.processes)
    preprocessor = Preprocessor(("--interface", settings.preprocessor_interface), settings.preprocessor_slab_mib)
    dispatcher, apps = Dispatcher(keys, settings, metrics, preprocessor, gate.refresh, counts), Apps()

    def taken(published: Published) -> None:
        meter.serve({(model.fleet, model.routing.id): metered_classes(model.routing) for model in published.models})
        reporter.report_to(published.demand_desk)
        preprocessor.serve(m.reading.graph for m in dispatcher.models.values() if m.reading is not None)

    table = TableKeeper(path, dispatcher, apps, metrics, taken)
    await table.look()
    intake = MediaIntake(settings.images, settings.sounds, _fetcher(settings))
    accounts = RequestAccounts(meter, parts.limits)
    generation = Generation(dispatcher, gate, accounts, intake, apps, settings, metrics, counts)
    made_answers = MadeAnswers(dispatcher, gate, accounts, apps, settings, metrics, counts)
    relay = _relay(settings)
    runs, spans = RunAnswers(relay, accounts, settings, metrics, counts), spans_of("medley-gateway")
    condition = parts.condition(OwnCondition(dispatcher, table, metrics))
    app = GatewayApp(
        settings, dispatcher, apps, table, generation, made_answers, runs, metrics, condition, spans, counts
    )
    config = uvicorn.Config(
        app,
        http=bounded(settings.http),
        ws="none",
        lifespan="off",
        interface="asgi3",
        access_log=False,
        log_config=None,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=settings.max_connections,
        timeout_keep_alive=int(settings.keep_alive_s),
        timeout_graceful_shutdown=int(settings.request_timeout_s),
    )

    def take_keys(found: KeyPair) -> None:
        dispatcher.take_keys(found)
        reporter.take_keys(found)

    watches = (table.watch(settings.table_poll_s), watch_key(key, keys, take_keys, settings.table_poll_s))
    tasks = [asyncio.create_task(each) for each in (*watches, reporter.run())]
    try:
        listener = await parts.listen(dispatcher)
        gc.freeze()  # vocabularies are large and stay: the collector need not walk them again and again
        await _Server(config, tls, reporter, parts).serve(sockets=[listener])
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        intake.close()
        if relay is not None:
            await relay.close()
        dispatcher.close()
        apps.close()
        await preprocessor.close()


def _fetcher(settings: GatewaySettings) -> "ImageFetcher | None":
    """None where no host is allowed."""
    if not settings.image_hosts:
        return None
    # An HTTP client is loaded by those alone who fetch.
    from control.gateway.media.fetcher import FetchRules, ImageFetcher, system_resolve

    hosts = frozenset(host.lower().rstrip(".") for host in settings.image_hosts)
    return ImageFetcher(FetchRules(hosts, settings.images.max_bytes), system_resolve, ssl.create_default_context())


def _relay(settings: GatewaySettings) -> "RunRelay | None":
    """None where no API is known."""
    if not settings.api_url:
        return None
    from control.gateway.runs.run_relay import RunRelay

    return RunRelay(settings.api_url)


class _Server(HttpServer):
    def __init__(self, config: uvicorn.Config, tls: TlsFiles | None, reporter: Reporter, parts: ProcessParts) -> None:
        super().__init__(config, tls)
        self._reporter = reporter
        self._parts = parts

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """What was asked last is told here: once it has shut down, uvicorn ends the process by the signal it got."""
        await super().shutdown(sockets)
        await self._reporter.close()
        await self._parts.close()


def _steady_clock() -> Callable[[], float]:
    """Unix seconds as they were when the process began, and the time since: a clock that is set does not move it."""
    began_s = time.time() - time.monotonic()
    return lambda: began_s + time.monotonic()
