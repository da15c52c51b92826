"""The gateway process: its loop, its socket, its end."""

import asyncio
import contextlib
import gc
import json
import os
import socket
from pathlib import Path

import uvicorn
import uvloop

from agents.channels.keys import KeyPair
from control.gateway.app import GatewayApp
from control.gateway.dispatcher import Dispatcher
from control.gateway.http_protocol import BoundedHttpProtocol
from control.gateway.metrics import GatewayMetrics
from control.gateway.settings import GatewaySettings
from control.gateway.table_keeper import TableKeeper


def run(host: str, port: int, table: Path, key: Path, settings: GatewaySettings) -> None:
    """Serve until SIGINT or SIGTERM; answers under way are finished first. Port 0 takes any.

    Prints {"url": …} as one line once it listens. Raises OSError when the address is taken, BadKeyError for the key.
    """
    # Prompts are batched over threads here already; a pool of threads below that only adds wake-ups to each of them.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    keys = KeyPair.load(key)
    listening = socket.create_server((host, port), backlog=2048, family=_family(host))
    uvloop.run(_serve(listening, table, keys, settings))


async def _serve(listening: socket.socket, path: Path, keys: KeyPair, settings: GatewaySettings) -> None:
    metrics = GatewayMetrics()
    dispatcher = Dispatcher(keys, settings, metrics)
    table = TableKeeper(path, dispatcher, metrics)
    await table.look()
    config = uvicorn.Config(
        GatewayApp(settings, dispatcher, table, metrics),
        http=BoundedHttpProtocol,
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
    watch = asyncio.create_task(table.watch(settings.table_poll_s))
    host, port = listening.getsockname()[:2]
    print(json.dumps({"url": f"http://{f'[{host}]' if ':' in host else host}:{port}"}), flush=True)
    gc.freeze()  # vocabularies are large and stay: the collector need not walk them again and again
    try:
        await uvicorn.Server(config).serve(sockets=[listening])
    finally:
        watch.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watch
        dispatcher.close()


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
