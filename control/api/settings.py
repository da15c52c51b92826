"""Settings of an API process."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class ApiSettings:
    host: str = "127.0.0.1"
    port: int = 8080
    """0: any."""
    max_body_bytes: int = 1 << 20
    """A spec file may have as many (`control.fleet_file.document`); a model's config.json has less."""
    body_timeout_s: float = 20.0
    """Time for a request's body to arrive: a sender of a byte a minute holds no connection for long."""
    statement_timeout_s: float = 15.0
    """Time for one statement of a request in PostgreSQL; a longer one is answered with 503."""
    threads: int = 12
    """Requests that work at the same time, each with a connection to PostgreSQL, of which a server has about 100."""
    session: timedelta = timedelta(hours=12)
    """A browser session; its token may end before."""
    idempotency: timedelta = timedelta(hours=24)
    """Time for which an answer is stored under its Idempotency-Key."""
    stream_poll_s: float = 1.0
    """Time between two looks for events while somebody follows."""
    heartbeat_s: float = 15.0
    """A comment in a stream without news, so that proxies keep it open."""
    max_streams: int = 200
    """Followers of one process; more are answered with 503."""
    gateways: tuple[str, ...] = ()
    """URLs of gateways that are asked every minute how fast they answer; a name may lead to several."""
    samples_load: bool = True
    """Look at the load of instances every minute; without it, series have what other processes saw."""
    workers: int = 1
    """Solves of this process at a time, each in a process of its own with some 300 MB."""
    needs_isolation: bool = True
    """Refuse workflows whose code is to be looked at where the system cannot keep the network from it."""
    operation_limit: timedelta = timedelta(minutes=30)
    """Time after which an operation fails."""
