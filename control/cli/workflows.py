"""`medley workflows`: async functions over models and services, which are run as often as they are asked for."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from control.cli.acting import acting
from control.cli.guard import Commands
from control.cli.options import MOST_ROWS, DatabaseOption
from control.cli.output import Output, OutputOption, console, emitted, table
from control.given_name import DEFAULT_PROJECT

if TYPE_CHECKING:
    from control.db.workflows import StoredWorkflow

app = Commands(name="workflows", help="Push workflows, and start runs of them.", no_args_is_help=True)
ProjectOption = Annotated[str, typer.Option(help="Project that it belongs to.")]


@app.command("push")
def push(
    file: Annotated[Path, typer.Argument(help="Python file with workflows and the services that they call.")],
    project: ProjectOption = DEFAULT_PROJECT,
    output: OutputOption = Output.TABLE,
    database_url: DatabaseOption = None,
) -> None:
    """Store the workflows of a file. New runs use it; runs that there are keep the code that they began with."""
    from control.actions.workflows import push_app
    from control.tasks.task_source import source_of

    source = source_of(file)
    with acting(database_url) as act:
        pushed = push_app(act, project, source, needs_isolation=False)  # the file is that of who runs this
    if not emitted([_document(each) for each in pushed], output):
        for each in pushed:
            typer.echo(f"Workflow {each.name} ({_signature(each)}) is version {each.version[:8]}.")


@app.command("list")
def list_(
    project: Annotated[str | None, typer.Option(help="Of this project alone.", show_default=False)] = None,
    output: OutputOption = Output.TABLE,
    database_url: DatabaseOption = None,
) -> None:
    """List workflows, with the runs of each that have not ended."""
    from control.db.workflows import PostgresWorkflows

    with acting(database_url) as act:
        found = PostgresWorkflows(act.database).page(MOST_ROWS, project)
    if emitted([_document(each) for each in found], output):
        return
    shown = table("project", "workflow", "takes and gives", "version", "open runs", right=("open runs",))
    for each in found:
        shown.add_row(each.project, each.name, _signature(each), each.version[:8], str(each.open_runs))
    console().print(shown)


@app.command("show")
def show(
    name: Annotated[str, typer.Argument(help="Name of the workflow.")],
    project: ProjectOption = DEFAULT_PROJECT,
    output: OutputOption = Output.TABLE,
    database_url: DatabaseOption = None,
) -> None:
    """Show a workflow: what it takes and gives, its limits, and what its runs call, by those that are done."""
    from control.db.runs import PostgresRuns
    from control.db.workflows import PostgresWorkflows
    from control.runs.learned import MOST_CALLS, MOST_RUNS, learned

    with acting(database_url) as act:
        found = PostgresWorkflows(act.database).load(project, name)
        known = learned(PostgresRuns(act.database).made(project, name, MOST_RUNS, MOST_CALLS))
    document = _document(found)
    if emitted(document | {"learned": known}, output):
        return
    shown = table("", "")
    for key, value in (document | {"parameters": _signature(found)}).items():
        shown.add_row(key, str(value))
    console().print(shown)
    if not known.runs:
        return
    calls = table(f"of {known.runs} runs", "calls a run", "then", right=("calls a run",))
    for called, following in known.follows.items():
        then = ", ".join(f"{each or 'the end'} {share:.0%}" for each, share in sorted(following.items()))
        count = f"{known.calls_per_run[called]:.2f}" if called else ""
        calls.add_row(called or "the beginning", count, then)
    console().print(calls)


@app.command("run")
def run(
    name: Annotated[str, typer.Argument(help="Name of the workflow.")],
    arguments: Annotated[str, typer.Option("--arguments", "-a", help="Its arguments, a JSON object.")] = "{}",
    project: ProjectOption = DEFAULT_PROJECT,
    wait: Annotated[bool, typer.Option(help="Wait for its end, and print what it returns.")] = True,
    output: OutputOption = Output.TABLE,
    database_url: DatabaseOption = None,
) -> None:
    """Start a run; some `medley orchestrator` executes it. Exit code 1 where it ends other than done."""
    from control.actions.workflows import start_run
    from control.cli.runs import json_object, waited
    from control.runs.shown import shown_run

    given = json_object(arguments, "--arguments")
    with acting(database_url) as act:
        started = start_run(act, project, name, given)
        if wait:
            waited(act.database, started.id, output)
        elif not emitted(shown_run(started), output):
            typer.echo(f"Run {started.id} of {name} is {started.state}: medley runs show {started.id}")


def _document(found: "StoredWorkflow") -> dict[str, Any]:
    about = found.about
    return {
        "project": found.project,
        "workflow": found.name,
        "version": found.version,
        "file": found.file,
        "pushed_at": found.pushed_at,
        "parameters": [{"name": p.name, "type": p.type, "required": p.required} for p in about.parameters],
        "gives": about.gives,
        "durable": about.durable,
        "max_usd": about.max_usd,
        "max_calls": about.max_calls,
        "deadline_s": about.deadline_s,
        "open_runs": found.open_runs,
    }


def _signature(found: "StoredWorkflow") -> str:
    takes = ", ".join(f"{p.name}: {p.type}{'' if p.required else ' = ...'}" for p in found.about.parameters)
    return f"({takes}) -> {found.about.gives}"
