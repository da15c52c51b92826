"""`medley up`: the whole product on this machine."""

import logging
import os
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated

import typer

from control.cli.options import DatabaseOption, SpecOption

PORT = 8000
CONSOLE_PORT = 8080


def up(
    file: SpecOption = None,
    host: Annotated[str, typer.Option(help="Address that the gateway listens on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the gateway; 0: any.")] = PORT,
    console_port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the console; any other where it is taken.")
    ] = CONSOLE_PORT,
    database_url: DatabaseOption = None,
) -> None:
    """Serve a fleet on this machine: the local cloud, its nodes, a gateway, the console.

    Without -f, the fleet that comes with Medley: SmolLM2-135M cut over unequal nodes, none of which could hold it.
    Its step times are measured once; later runs start faster. Ctrl-C ends it and leaves nothing running.
    """
    from control.api.settings import ApiSettings
    from control.api.thread import serving_in_thread
    from control.cli.acting import home, who
    from control.cli.progress import build_progress
    from control.up.bring_up import UpOptions, bring_up
    from control.up.steps import Steps

    own = home()
    logging.basicConfig(
        filename=own / "up.log", level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    spec = file or Path(__file__).parent.parent / "up" / "local.yaml"

    def console(gateway: str) -> AbstractContextManager[str]:
        settings = ApiSettings(host=host, port=console_port, gateways=(gateway,))
        return serving_in_thread(settings, database_url, os.environ)

    with build_progress() as progress:
        left = bring_up(UpOptions(spec, own, database_url, who(), host, port, console), Steps(typer.echo), progress)
    if left:
        raise typer.Exit(1)
