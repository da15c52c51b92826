"""`medley audit`: who did what, and why."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from control.cli.acting import opened
from control.cli.options import DatabaseOption, LimitOption
from control.cli.output import Output, OutputOption, emitted, say
from control.cli.time_text import utc

if TYPE_CHECKING:
    from control.lifecycle.fleet_event import FleetEvent


def audit(
    fleet: Annotated[str, typer.Option(help="Only this fleet.")] = "",
    kind: Annotated[str, typer.Option(help="Only this kind, such as plan.accepted.")] = "",
    subject: Annotated[str, typer.Option(help="Only about this plan, instance, token, offer… (its id).")] = "",
    limit: LimitOption = 50,
    output: OutputOption = Output.TABLE,
    database_url: DatabaseOption = None,
) -> None:
    """Show who did what and why: people on the command line, tokens over the API, the control plane by itself."""
    from control.db.events import PostgresEvents

    with opened(database_url) as database:
        newest = PostgresEvents(database).page(limit, fleet=fleet, kind=kind, subject=subject)
    documents = [{"sequence": past.sequence, "at": past.at} | asdict(past.event) for past in reversed(newest)]
    if emitted(documents, output):
        return
    if not newest:
        say("medley: no such event is recorded")
    for past in reversed(newest):
        about = "  ".join(part for part in (past.event.fleet, past.event.subject) if part)
        typer.echo(
            f"{utc(past.at)}  {past.event.actor}  {past.event.kind}  {about}  {past.event.text}{_figures(past.event)}"
        )


def _figures(event: "FleetEvent") -> str:
    shown = (
        f"{name} {round(value, 4):,.12g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in event.detail.items()
    )
    return f" ({', '.join(shown)})" if event.detail else ""
