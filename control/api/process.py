"""An API process: opens the database, and serves until a signal ends it."""

import gc
import logging
import signal
import sys
from collections.abc import Callable, Mapping

import uvicorn

from control.access.pepper import last_good_peppers
from control.api.app import create_app
from control.api.json_log import log_json
from control.api.settings import ApiSettings
from control.api.work.pool import WorkPool
from control.db.database import Database
from control.db.kept_database import open_kept_database
from control.db.location import URL_VARIABLE, home_directory
from control.db.shared_clock import shared_clock
from control.http_protocol import HttpLimits, bounded
from control.http_server import HttpServer
from control.listener import listening, url_of
from control.tls_files import TlsFiles

_log = logging.getLogger(__name__)

_GRACE_S = 10
"""Time for requests under way; streams, which have no end, are cut off then and resumed elsewhere."""


def serve(
    settings: ApiSettings,
    database_url: str | None,
    proxies: str,
    environment: Mapping[str, str],
    say: Callable[[str], None],
    tls: TlsFiles | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM, and answer what was begun. `say` gets the URL. Raises OSError when the port
    is taken, PepperError, and what opening the database raises."""
    last_good_peppers(environment)  # those that stay in use when the file is spoilt later; without them, no start
    # uvicorn hands the signal on once it has shut down: by its default the process would end there and then, and an
    # embedded database would be left running
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    log_json()
    logging.getLogger("uvicorn.access").disabled = True  # our own line says more
    with (
        listening(settings.host, settings.port) as listener,
        open_kept_database(
            database_url, _log.warning, connections=settings.threads, statement_timeout_s=settings.statement_timeout_s
        ) as database,
    ):
        served = server(settings, database, database_url, proxies, environment, tls)
        # What is there now stays: a collection that walks through it holds up every hundredth request by 100 ms.
        gc.collect()
        gc.freeze()
        say(f"medley api: {url_of(listener, is_tls=tls is not None)}/api/v1")
        served.run(sockets=[listener])


def server(
    settings: ApiSettings,
    database: Database,
    database_url: str | None,
    proxies: str,
    environment: Mapping[str, str],
    tls: TlsFiles | None = None,
) -> uvicorn.Server:
    """Make the server of the API. `database_url` is that of `database`, for workers, which open it themselves."""
    workers_environment = dict(environment) | ({URL_VARIABLE: database_url} if database_url else {})
    pool = WorkPool(database, settings, workers_environment)
    app = create_app(database, settings, shared_clock(database), pool, home_directory(environment))
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        timeout_keep_alive=30,
        timeout_graceful_shutdown=_GRACE_S,
        http=bounded(HttpLimits()),
        proxy_headers=bool(proxies),
        forwarded_allow_ips=proxies,
        limit_concurrency=1_000,
    )
    return HttpServer(config, tls)
