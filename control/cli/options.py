"""Options that several commands share."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from templates_lib.values.nearest_name import nearest_name

SpecOption = Annotated[
    Path | None, typer.Option("--file", "-f", help="Spec file (apiVersion: medley/v1, kind: Fleet).", metavar="SPEC")
]
SnapshotOption = Annotated[
    Path | None, typer.Option("--snapshot", help="Replay this recorded snapshot instead of a spec file.")
]
TemplatesOption = Annotated[
    Path | None, typer.Option("--templates", help="Templates written by hand (JSON), for a snapshot without a recipe.")
]
DatabaseOption = Annotated[
    str | None,
    typer.Option(
        "--database-url",
        help="PostgreSQL server. Default: $MEDLEY_DATABASE_URL, else one of Medley's own in $MEDLEY_HOME.",
        show_default=False,
    ),
]
HostOption = Annotated[
    str, typer.Option(help="Address to listen on. Serve TLS, or put it in front, unless it is this machine's own.")
]
TlsCertOption = Annotated[
    Path | None,
    typer.Option(help="Certificate chain, PEM: serve HTTPS. A new file is taken up as it comes.", show_default=False),
]
TlsKeyOption = Annotated[Path | None, typer.Option(help="Private key of --tls-cert, PEM.", show_default=False)]
MOST_ROWS = 100_000
"""Rows that a command shows at most: for more, query the database."""
LimitOption = Annotated[int, typer.Option(min=1, max=MOST_ROWS, help="Most rows to show, the newest.")]


def one_of(names: Sequence[str], description: str, *, show_default: bool = True) -> Any:
    """Make an option that takes one of `names`, as a registry lists them: an enumeration would list them again."""

    def checked(value: str | None) -> str | None:
        if value is not None and value not in names:
            raise typer.BadParameter(f"{value!r} is not known; {nearest_name(value, names)}")
        return value

    return typer.Option(help=description, metavar="|".join(names), callback=checked, show_default=show_default)


class Isolation(StrEnum):
    NETWORK = "network"
    PROCESS = "process"


IsolationOption = Annotated[
    Isolation,
    typer.Option(
        help="Of code of workflows and services. network: refuse it where the system cannot keep the network from it; "
        "process: a process of its own is enough."
    ),
]
