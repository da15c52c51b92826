"""`medley logs`: what an instance's nodes wrote."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from control.cli.acting import home, opened
from control.cli.options import DatabaseOption
from control.cli.output import Output, OutputOption, emitted, say

if TYPE_CHECKING:
    from control.db.database import Database

_POLL_S = 0.5


def logs(
    instance: Annotated[str, typer.Argument(help="Id of an instance, or its beginning (`medley instances`).")],
    tail_bytes: Annotated[int, typer.Option("--bytes", min=1, max=1 << 24, help="Bytes of each node's log.")] = 16_384,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what is written from now on.")] = False,
    output: OutputOption = Output.TABLE,
    database_url: DatabaseOption = None,
) -> None:
    """Show the end of the logs of an instance's nodes, where they are on this machine; else where to look.

    Each line begins with the node's place in the instance.
    """
    from control.db.instances import PostgresInstances
    from control.db.nodes import PostgresNodes
    from control.db.short_ids import whole_id
    from control.fleet.node_logs import node_log

    with opened(database_url) as database:
        whole = whole_id(database, "instance", instance)
        PostgresInstances(database).load(whole)
        held = PostgresNodes(database).of_instance(whole)
        found = [node_log(home(), held[place], tail_bytes) for place in sorted(held)]
        if emitted(found, output):
            return
        if not found:
            say("medley: no node of it was ever asked for")
        for log in found:
            if log.missing:
                say(f"medley: {log.missing}")
            lines = log.text.splitlines()
            for line in lines[1 if log.size_bytes > tail_bytes else 0 :]:  # the first one begins amid a line
                _print(log.place, line)
        if follow:
            _follow(database, whole, {log.place: log.size_bytes for log in found if not log.missing})


def _follow(database: "Database", instance: str, begins: dict[int, int]) -> None:
    """Print lines as they are written, until the instance is terminated and its last ones were read."""
    from control.db.instances import PostgresInstances
    from control.db.nodes import PostgresNodes
    from control.fleet.node_logs import lines_after
    from control.lifecycle.state import InstanceState

    held, is_over = PostgresNodes(database).of_instance(instance), False
    while not is_over:
        is_over = PostgresInstances(database).load(instance).state == InstanceState.TERMINATED
        if not is_over:
            time.sleep(_POLL_S)
        held |= PostgresNodes(database).of_instance(instance)
        for place, node in sorted(held.items()):
            lines, begins[place] = lines_after(home(), node, begins.get(place, 0))
            for line in lines:
                _print(place, line)


def _print(place: int, line: str) -> None:
    from control.printable import printable

    typer.echo(f"{place}  {printable(line)}")
