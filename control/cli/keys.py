"""`medley keys`: keys by which nodes know gateways."""

from typing import Annotated

import typer

from control.cli.acting import acting, home
from control.cli.guard import Commands
from control.cli.options import DatabaseOption
from control.cli.output import Output, OutputOption, console, emitted, table

app = Commands(name="keys", help="Rotate the keys by which nodes know gateways.", no_args_is_help=True)


@app.command("list")
def list_(output: OutputOption = Output.TABLE) -> None:
    """List the keys of gateways that are let in, by the files in $MEDLEY_HOME/control."""
    from control.reconcile.daemon_home import DaemonHome

    keys = DaemonHome.below(home()).gateway_keys()
    found = [{"name": name, "public_key": key, "current": key == keys.current} for key, name in keys.items()]
    if emitted(found, output):
        return
    shown = table("name", "public key", "")
    for each in found:
        shown.add_row(str(each["name"]), str(each["public_key"]), "gateways have it" if each["current"] else "")
    console().print(shown)


@app.command("rotate")
def rotate(database_url: DatabaseOption = None) -> None:
    """Give gateways another key. Nothing is restarted: schedulers let in both, and gateways go over one by one.

    The one before is let in until `medley keys revoke`. Run it where `medley reconcile` keeps $MEDLEY_HOME/control.
    """
    from control.reconcile.daemon_home import DaemonHome

    with acting(database_url) as act:
        name = DaemonHome.below(home()).gateway_keys().rotate()
        act.record("gateway_key.rotated", f"gave gateways key {name}", name)
    typer.echo(f"Gateways have key {name} within seconds. Then revoke the one before: medley keys list")


@app.command("revoke")
def revoke(
    name: Annotated[str, typer.Argument(help="Name of the key, as `medley keys list` shows it.")],
    database_url: DatabaseOption = None,
) -> None:
    """Let a key that gateways had in no more. Requests of a gateway that has nothing else go on elsewhere."""
    from control.reconcile.daemon_home import DaemonHome

    with acting(database_url) as act:
        DaemonHome.below(home()).gateway_keys().revoke(name)
        act.record("gateway_key.revoked", f"revoked key {name} of gateways", name)
    typer.echo(f"Key {name} is let in no more.")
