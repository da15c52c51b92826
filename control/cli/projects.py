"""`medley projects`: what fleets, tokens and budgets belong to."""

from typing import Annotated

import typer

from control.access.use_limits import UseLimits
from control.cli.acting import acting
from control.cli.guard import Commands
from control.cli.options import MOST_ROWS, DatabaseOption
from control.cli.output import Output, OutputOption, console, emitted, table
from control.given_name import check_name

app = Commands(name="projects", help="Create, limit and list projects.", no_args_is_help=True)


@app.command("create")
def create(
    name: Annotated[str, typer.Argument(help="Name of the project.")],
    description: Annotated[str, typer.Option(help="What it is for.")] = "",
    database_url: DatabaseOption = None,
) -> None:
    """Create a project: `medley apply --project`, `medley token create` and `medley budgets set` name it."""
    from control.actions.projects import create_project

    with acting(database_url) as act:
        create_project(act, check_name("project", name), description)
    typer.echo(f"Project {name} created.")


@app.command("limit")
def limit(
    name: Annotated[str, typer.Argument(help="Name of the project.")],
    requests_per_minute: Annotated[int | None, typer.Option(help="Requests a minute.", show_default=False)] = None,
    tokens_per_minute: Annotated[
        int | None, typer.Option(help="Tokens a minute, prompts and answers.", show_default=False)
    ] = None,
    concurrent_requests: Annotated[
        int | None, typer.Option(help="Requests that are open at once.", show_default=False)
    ] = None,
    database_url: DatabaseOption = None,
) -> None:
    """Limit what all tokens of a project together ask of each gateway. What is left out has no limit."""
    from control.actions.projects import change_project
    from control.db.projects import PostgresProjects

    limits = UseLimits(requests_per_minute, tokens_per_minute, concurrent_requests)
    with acting(database_url) as act, act.as_one() as one:
        there = PostgresProjects(one.database).load(name)
        change_project(one, name, there.version, there.description, limits)
    typer.echo(f"Project {name}: {_text(limits) or 'no limits'}.")


@app.command("list")
def list_(output: OutputOption = Output.TABLE, database_url: DatabaseOption = None) -> None:
    """List projects with the number of their fleets."""
    from control.db.projects import PostgresProjects

    with acting(database_url) as act:
        found = PostgresProjects(act.database).page(MOST_ROWS)
    if emitted(found, output):
        return
    shown = table("project", "fleets", "limits", "description", right=("fleets",))
    for project in found:
        shown.add_row(project.name, str(project.fleets), _text(project.limits), project.description)
    console().print(shown)


def _text(limits: UseLimits) -> str:
    given = (
        (limits.requests_per_minute, "requests/min"),
        (limits.tokens_per_minute, "tokens/min"),
        (limits.concurrent_requests, "requests at once"),
    )
    return ", ".join(f"{most:,} {unit}" for most, unit in given if most is not None)
