"""`medley runs` and `medley signal`: executions of workflows."""

import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from control.cli.acting import acting
from control.cli.guard import Commands
from control.cli.options import DatabaseOption, LimitOption
from control.cli.output import Output, OutputOption, console, emitted, render, say, table
from control.runs.run_state import OPEN, RunState

if TYPE_CHECKING:
    from control.db.database import Database

app = Commands(name="runs", help="Watch runs of workflows, end them, and have failed ones go on.", no_args_is_help=True)
RunArgument = Annotated[str, typer.Argument(help="Id of the run.")]
_LOOK_S = 0.1


@app.command("list")
def list_(
    workflow: Annotated[str | None, typer.Option(help="Of this workflow alone.", show_default=False)] = None,
    project: Annotated[str | None, typer.Option(help="Of this project alone.", show_default=False)] = None,
    state: Annotated[RunState | None, typer.Option(help="In this state alone.", show_default=False)] = None,
    limit: LimitOption = 50,
    output: OutputOption = Output.TABLE,
    database_url: DatabaseOption = None,
) -> None:
    """List runs, the newest first."""
    from control.cli.time_text import at
    from control.db.runs import PostgresRuns
    from control.runs.shown import shown_run

    with acting(database_url) as act:
        found = PostgresRuns(act.database).page(limit, project, workflow, state)
    if emitted([shown_run(each) for each in found], output):
        return
    shown = table("run", "project", "workflow", "state", "created", "$", "reason", right=("$",))
    for each in found:
        cost = f"{each.usd:.4f}"
        shown.add_row(each.id, each.project, each.workflow, each.state, at(each.created_at), cost, each.reason)
    console().print(shown)


@app.command("show")
def show(run: RunArgument, output: OutputOption = Output.TABLE, database_url: DatabaseOption = None) -> None:
    """Show a run: its state, what it returned or emitted, and each of its calls."""
    from control.runs.shown import shown_call

    with acting(database_url) as act:
        document, calls = _loaded(act.database, run)
    if emitted(document | {"calls": [shown_call(each) for each in calls]}, output):
        return
    about = table("", "")
    for key, value in document.items():
        about.add_row(key, "" if value is None else str(value))
    console().print(about)
    shown = table("call", "what", "state", "s", "$", "result or reason", right=("s", "$"))
    for each in map(shown_call, calls):
        began, ended = each["started_at"] or each["made_at"], each["ended_at"]
        took = "" if ended is None else f"{(ended - began).total_seconds():.3f}"
        what = f"{each['kind']} {each['target']}".strip()
        result = each["reason"] or ("" if each["result"] is None else str(each["result"]))
        state = f"{each['state']}{', caught' if each['caught'] else ''}"
        shown.add_row(each["path"], what, state, took, f"{each['usd']:.4f}", result)
    console().print(shown)


@app.command("cancel")
def cancel(run: RunArgument, database_url: DatabaseOption = None) -> None:
    """End a run. What it has called and is computed is not waited for."""
    from control.actions.workflows import cancel_run

    with acting(database_url) as act:
        found = cancel_run(act, run)
    asked = "is asked to end" if found.state is RunState.RUNNING else f"is {found.state}"
    typer.echo(f"Run {run} {asked}.")


@app.command("resume")
def resume(
    run: RunArgument,
    again: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CALL", help="Call this again: one that is uncertain, or that its code went on without (repeat)."
        ),
    ] = None,
    done: Annotated[
        list[str] | None,
        typer.Option(metavar="CALL=JSON", help="This uncertain call was done, and gave this (repeat)."),
    ] = None,
    max_usd: Annotated[float | None, typer.Option(min=0, help="Budget from now on.", show_default=False)] = None,
    database_url: DatabaseOption = None,
) -> None:
    """Have a run that failed go on: what it failed for is called again, what was done stays done.

    A call with an external effect that a crash left open is uncertain: look what became of it, and say so.
    """
    from control.actions.workflows import resume_run, stored_value

    resolved: dict[str, bytes | None] = dict.fromkeys(again or ())
    for each in done or ():
        path, equals, value = each.partition("=")
        if not equals:
            raise ValueError(f"--done {each}: give CALL=JSON, such as 3=null")
        resolved[path] = stored_value("done", json_value(value, f"--done {path}"))
    with acting(database_url) as act:
        resume_run(act, run, resolved, max_usd)
    typer.echo(f"Run {run} goes on.")


def signal(
    run: RunArgument,
    name: Annotated[str, typer.Argument(help="Name of the signal, as its code waits for it.")],
    value: Annotated[str, typer.Argument(help="What it is given, JSON.")] = "null",
    database_url: DatabaseOption = None,
) -> None:
    """Send a signal to a run, such as the answer of a person that it waits for."""
    from control.actions.workflows import send_signal

    given = json_value(value, "the signal's value")
    with acting(database_url) as act:
        send_signal(act, run, name, given)
    typer.echo(f"Run {run} has signal {name}.")


def waited(database: "Database", run_id: str, output: Output) -> None:
    """Wait for the end of a run and print what it returned; what it emits goes to stderr as it comes."""
    from control.db.runs import PostgresRuns
    from control.runs import shown

    runs, told = PostgresRuns(database), 0
    while True:
        run = runs.load(run_id)
        while emits := runs.emits(run_id, told):
            for each in shown.emitted(emits):
                say(f"emit: {each}")
            told = emits[-1].seq
        if run.state not in OPEN:
            break
        time.sleep(_LOOK_S)
    if run.state is not RunState.DONE:
        raise ValueError(f"run {run_id} is {run.state}: {run.reason}")
    answer = runs.answer(run_id)
    value = None if answer is None else shown.plain(answer)
    sys.stdout.write(render(value, Output.JSON if output is Output.TABLE else output))


def json_value(text: str, what: str) -> Any:
    """Raises ValueError for what is no JSON."""
    import msgspec

    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise ValueError(f"{what} is no JSON ({error}); a text stands in quotes") from None


def json_object(text: str, what: str) -> dict[str, Any]:
    """Raises ValueError for what is no JSON object."""
    found = json_value(text, what)
    if not isinstance(found, dict):
        raise ValueError(f'{what} is a JSON object, such as {{"question": "why?"}}')
    return found


def _loaded(database: "Database", run_id: str) -> tuple[dict[str, Any], list[Any]]:
    from control.db.runs import PostgresRuns
    from control.runs import shown

    runs = PostgresRuns(database)
    run, calls, answer = runs.load(run_id), runs.calls(run_id), runs.answer(run_id)
    document = shown.shown_run(run)
    document["answer"] = None if answer is None else shown.plain(answer)
    document["emitted"] = shown.emitted(calls)
    return document, calls
