"""An API process: opens the database, serves until it is told to end."""

import gc
import logging
import socket
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

import uvicorn

from control.api.app import create_app
from control.api.json_log import log_json
from control.api.settings import ApiSettings
from control.api.work.pool import WorkPool
from control.db.database import Database, open_database
from control.db.location import URL_VARIABLE, home_directory

_GRACE_S = 10
"""For requests under way; streams, which have no end, are cut off then and resumed elsewhere."""
_HEADER_BYTES = 32 << 10


def serve(
    settings: ApiSettings,
    database_url: str | None,
    proxies: str,
    environment: Mapping[str, str],
    say: Callable[[str], None],
) -> None:
    """Until SIGINT or SIGTERM; then it answers what it has begun. `say` is told the URL. Raises OSError when the port
    is taken, and what opening the database raises."""
    log_json()
    logging.getLogger("uvicorn.access").disabled = True  # our own line says more
    with (
        socket.create_server((settings.host, settings.port), family=_family(settings.host)) as listener,
        open_database(
            database_url, connections=settings.threads, statement_timeout_s=settings.statement_timeout_s
        ) as database,
    ):
        served = server(settings, database, database_url, proxies, environment)
        # What is there now stays: a collection that walks through it holds up every hundredth request by 100 ms.
        gc.collect()
        gc.freeze()
        say(f"medley api: {url_of(listener)}/api/v1")
        served.run(sockets=[listener])


def server(
    settings: ApiSettings,
    database: Database,
    database_url: str | None,
    proxies: str,
    environment: Mapping[str, str],
) -> uvicorn.Server:
    """`database_url`: of `database`, for workers, which open it themselves."""
    workers_environment = dict(environment) | ({URL_VARIABLE: database_url} if database_url else {})
    pool = WorkPool(database, settings, workers_environment)
    app = create_app(database, settings, lambda: datetime.now(UTC), pool, home_directory(environment))
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        timeout_keep_alive=30,
        timeout_graceful_shutdown=_GRACE_S,
        h11_max_incomplete_event_size=_HEADER_BYTES,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=proxies,
        limit_concurrency=1_000,
    )
    return uvicorn.Server(config)


def url_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
