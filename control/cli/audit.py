"""`medley audit`: who did what, and why, and whether the account of it is as it was written."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from control.cli.acting import opened
from control.cli.guard import Commands
from control.cli.options import DatabaseOption, LimitOption
from control.cli.output import Output, OutputOption, emitted, say
from control.cli.time_text import utc

if TYPE_CHECKING:
    from control.lifecycle.fleet_event import FleetEvent


app = Commands(name="audit")


@app.callback(invoke_without_command=True)
def audit(
    context: typer.Context,
    fleet: Annotated[str, typer.Option(help="Only this fleet.")] = "",
    kind: Annotated[str, typer.Option(help="Only this kind, such as plan.accepted.")] = "",
    subject: Annotated[str, typer.Option(help="Only about this plan, instance, token, offer… (its id).")] = "",
    limit: LimitOption = 50,
    output: OutputOption = Output.TABLE,
    database_url: DatabaseOption = None,
) -> None:
    """Show who did what and why: people on the command line, tokens over the API, the control plane by itself."""
    if context.invoked_subcommand is not None:
        return
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


@app.command("verify")
def verify(
    kept: Annotated[
        str, typer.Option("--seal", help="A seal that an earlier run has printed: the chain must still hold it.")
    ] = "",
    output: OutputOption = Output.TABLE,
    database_url: DatabaseOption = None,
) -> None:
    """Check that no event was changed or removed since it was sealed. Exit code 1 when one was.

    Each seal is a hash over its event and the seal before it. Keep the newest, which is printed, where the database's
    owner cannot change it: who replaces events and all seals is found out by that one alone.
    """
    from control.db.audit_seals import PostgresAuditSeals, Seal

    expected = Seal.read(kept) if kept else None
    with opened(database_url) as database:
        verdict = PostgresAuditSeals(database).verify(expected)
    newest = str(verdict.newest or "")
    if not emitted({"events": verdict.events, "newest": newest, "findings": verdict.findings}, output):
        for finding in verdict.findings:
            typer.echo(finding)
        if not verdict.findings:
            typer.echo(f"{verdict.events:,} events are as they were sealed. Newest seal: {newest or 'none yet'}")
    if verdict.findings:
        raise typer.Exit(1)


def _figures(event: "FleetEvent") -> str:
    shown = (
        f"{name} {round(value, 4):,.12g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in event.detail.items()
    )
    return f" ({', '.join(shown)})" if event.detail else ""
