"""`medley db`: the tables and their revision."""

from typing import Annotated

import typer

from control.cli.guard import guarded
from control.cli.options import DatabaseOption
from control.cli.output import Output, OutputOption, emit

app = typer.Typer(name="db", help="Upgrade, downgrade and inspect the database.", no_args_is_help=True)


@app.command("upgrade")
@guarded
def upgrade(database_url: DatabaseOption = None) -> None:
    """Bring the tables to this release's revision."""
    from control.db.database import open_database
    from control.db.revision import REVISIONS

    with open_database(database_url, upgrade=True) as database:
        typer.echo(f"{database.name} is at revision {REVISIONS[-1]}")


@app.command("downgrade")
@guarded
def downgrade(
    revision: Annotated[str, typer.Argument(help="Revision to go back to, such as 0001; `base` removes the tables.")],
    database_url: DatabaseOption = None,
) -> None:
    """Take the tables back to a revision.

    What only newer tables hold is lost; with `base`, all libraries and plans.
    """
    from control.db.database import open_database
    from control.db.migrate import downgrade as migrate
    from control.db.revision import REVISIONS
    from templates_lib.nearest_name import nearest_name

    if revision not in (valid := ("base", *REVISIONS)):
        raise ValueError(f"unknown revision {revision!r}; {nearest_name(revision, valid)}")
    # Forward first: tables of an older revision than the one asked for have no way back to it.
    with open_database(database_url, upgrade=True) as database, database.transaction() as connection:
        migrate(connection, revision)
    typer.echo(f"{database.name} is at revision {revision}")


@app.command("status")
@guarded
def status(database_url: DatabaseOption = None, output: OutputOption = Output.TABLE) -> None:
    """Say which database is used, and its revision.

    Exit code 1, with what to do, when commands cannot use it: it does not answer, or is at another revision.
    """
    from control.db.database import open_database
    from control.db.revision import current_revision

    with open_database(database_url) as database, database.transaction() as connection:
        found = {"database": database.name, "revision": current_revision(connection)}
    if output is Output.TABLE:
        typer.echo(f"{found['database']}: revision {found['revision']}, ready")
    else:
        emit(found, output)
