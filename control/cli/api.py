"""`medley api`: the REST admin API."""

import os
from typing import Annotated

import typer

from control.cli.options import DatabaseOption, HostOption, Isolation, IsolationOption, TlsCertOption, TlsKeyOption

PORT = 8080


def api(
    host: HostOption = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any.")] = PORT,
    workers: Annotated[
        int, typer.Option(min=0, max=16, help="Plans solved at the same time; 0: other processes solve them.")
    ] = 1,
    gateway: Annotated[
        list[str] | None,
        typer.Option(
            help="URL of a gateway whose latencies are sampled; may be repeated. A name with several addresses, "
            "as service discovery gives it, is several gateways.",
            show_default=False,
        ),
    ] = None,
    proxies: Annotated[
        str, typer.Option(help="Addresses of proxies in front, whose X-Forwarded-* headers are trusted.")
    ] = "127.0.0.1",
    tls_cert: TlsCertOption = None,
    tls_key: TlsKeyOption = None,
    isolation: IsolationOption = Isolation.NETWORK,
    database_url: DatabaseOption = None,
) -> None:
    """Serve /api/v1: what the console and the Terraform provider use. Any number of these may run.

    Tokens come from `medley token create`. Logs are JSON lines on stderr.
    """
    from control.api.process import serve
    from control.api.settings import ApiSettings
    from control.tls_files import tls_files

    gateways = tuple(gateway or ())
    for url in gateways:
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"--gateway {url!r} is no URL; it looks like http://HOST:8000")
    needs_isolation = isolation is Isolation.NETWORK
    settings = ApiSettings(host=host, port=port, workers=workers, gateways=gateways, needs_isolation=needs_isolation)
    serve(settings, database_url, proxies, dict(os.environ), typer.echo, tls_files(tls_cert, tls_key))
