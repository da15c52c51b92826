"""`medley gateway`: the OpenAI-compatible endpoint in front of all fleets."""

from typing import Annotated

import typer

from control.cli.options import HostOption, TlsCertOption, TlsKeyOption

PORT = 8000


def gateway(
    host: HostOption = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any.")] = PORT,
    workers: Annotated[
        int,
        typer.Option(
            min=0,
            help="Processes that share the port, limits of keys and bounds of the gateway, each with a core to use; "
            "0: one for each core.",
        ),
    ] = 1,
    image_host: Annotated[
        list[str] | None,
        typer.Option(
            "--image-host",
            help="Host that pictures of requests may be fetched from, over HTTPS (repeat; .example.org: all below it).",
        ),
    ] = None,
    preprocessor_interface: Annotated[
        str,
        typer.Option(help="This machine's address, by which nodes of encoders pull pictures and sounds from it."),
    ] = "127.0.0.1",
    preprocessor_slab_mib: Annotated[
        int | None,
        typer.Option(
            min=8,
            help="Shared memory for pictures and sounds that are not pulled yet, of all workers together; its part "
            "bounds the largest that a worker takes. Default: of each, by the models served.",
        ),
    ] = None,
    api: Annotated[
        str,
        typer.Option(help="URL of the admin API, where clients' runs of workflows are started.", show_default=False),
    ] = "",
    tls_cert: TlsCertOption = None,
    tls_key: TlsKeyOption = None,
) -> None:
    """Serve all models of all fleets, by the routing table that `medley reconcile` writes in $MEDLEY_HOME/control.

    Any number of these may run; each needs that directory. They keep serving while the control plane and the database
    are down. Logs are JSON lines on stderr.
    """
    from agents.tracing.json_lines import log_json_lines
    from control.cli.acting import home
    from control.gateway.settings import GatewaySettings
    from control.gateway.start import start
    from control.reconcile.daemon_home import DaemonHome
    from control.tls_files import tls_files

    if api and not api.startswith(("http://", "https://")):
        raise ValueError(f"--api {api!r} is no URL; it looks like http://HOST:8080")
    log_json_lines()
    tls = tls_files(tls_cert, tls_key)
    own = DaemonHome.below(home())
    own.keys("gateway")
    settings = GatewaySettings(
        image_hosts=tuple(image_host or ()),
        preprocessor_interface=preprocessor_interface,
        preprocessor_slab_mib=preprocessor_slab_mib or 0,
        api_url=api,
    )
    start(host, port, own.table, own.gateway_key, settings, tls, workers)
