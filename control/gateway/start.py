"""Starts a gateway: in this process, or as several."""

from pathlib import Path

from control.gateway.settings import GatewaySettings
from control.tls_files import TlsFiles


def start(
    host: str, port: int, table: Path, key: Path, settings: GatewaySettings, tls: TlsFiles | None, workers: int
) -> None:
    """Serve until SIGINT or SIGTERM; answers under way are finished first. Port 0 takes any; `workers` 0: a process for
    each core.

    Prints {"url": …} as one line once it listens. Raises OSError when the address is taken, BadKeyError for the key,
    PepperError for peppers.
    """
    if workers == 1:
        from control.gateway.process import run

        run(host, port, table, key, settings, tls)
        return
    # What serves clients is loaded by the workers alone.
    from control.gateway.workers.messages import Serve
    from control.gateway.workers.supervisor import supervise

    files = None if tls is None else (str(tls.certificate.resolve()), str(tls.key.resolve()))
    order = Serve(0, host, port, str(table.resolve()), str(key.resolve()), settings, files)
    supervise(order, workers)
