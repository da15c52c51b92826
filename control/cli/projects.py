"""`medley projects`: what fleets, tokens and budgets belong to."""

from typing import Annotated

import typer

from control.cli.acting import acting
from control.cli.guard import Commands
from control.cli.options import MOST_ROWS, DatabaseOption
from control.cli.output import Output, OutputOption, console, emitted, table
from control.given_name import check_name

app = Commands(name="projects", help="Create and list projects.", no_args_is_help=True)


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


@app.command("list")
def list_(output: OutputOption = Output.TABLE, database_url: DatabaseOption = None) -> None:
    """List projects with the number of their fleets."""
    from control.db.projects import PostgresProjects

    with acting(database_url) as act:
        found = PostgresProjects(act.database).page(MOST_ROWS)
    if emitted(found, output):
        return
    shown = table("project", "fleets", "description", right=("fleets",))
    for project in found:
        shown.add_row(project.name, str(project.fleets), project.description)
    console().print(shown)
