"""`medley db`: the tables, their revision, and copies of them."""

from pathlib import Path
from typing import Annotated

import typer

from control.cli.guard import Commands
from control.cli.options import DatabaseOption
from control.cli.output import Output, OutputOption, emitted

app = Commands(name="db", help="Upgrade, inspect, back up and restore the database.", no_args_is_help=True)


@app.command("upgrade")
def upgrade(database_url: DatabaseOption = None) -> None:
    """Bring the tables to this release's revision."""
    from control.db.database import open_database
    from control.db.revision import REVISIONS

    with open_database(database_url, upgrade=True) as database:
        typer.echo(f"{database.name} is at revision {REVISIONS[-1]}")


@app.command("downgrade")
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
    from templates_lib.values.nearest_name import nearest_name

    if revision not in (valid := ("base", *REVISIONS)):
        raise ValueError(f"unknown revision {revision!r}; {nearest_name(revision, valid)}")
    # Forward first: tables of an older revision than the one asked for have no way back to it.
    with open_database(database_url, upgrade=True) as database, database.transaction() as connection:
        migrate(connection, revision)
    typer.echo(f"{database.name} is at revision {revision}")


@app.command("status")
def status(database_url: DatabaseOption = None, output: OutputOption = Output.TABLE) -> None:
    """Show which database is used, and its revision.

    Exits with 1, and says what to do, when commands cannot use it: it does not answer, or is at another revision.
    """
    from control.db.database import open_database
    from control.db.revision import current_revision

    with open_database(database_url) as database, database.transaction() as connection:
        found = {"database": database.name, "revision": current_revision(connection)}
    if not emitted(found, output):
        typer.echo(f"{found['database']}: revision {found['revision']}, ready")


@app.command("backup")
def backup(
    file: Annotated[Path, typer.Argument(help="Where to write it; readable by you only.")],
    database_url: DatabaseOption = None,
) -> None:
    """Write all state into one file, while everything keeps running.

    Store $MEDLEY_HOME/control/*.key with it: nodes know their control plane by these keys.
    """
    from control.db.backup import back_up
    from control.db.database import open_database

    with open_database(database_url) as database:
        back_up(database, file)
        typer.echo(f"Backup of {database.name} written to {file} ({file.stat().st_size / 1e6:.1f} MB)")


@app.command("restore")
def restore(
    file: Annotated[Path, typer.Argument(help="File that `medley db backup` wrote.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    database_url: DatabaseOption = None,
) -> None:
    """Replace all state by a backup.

    The first round of `medley reconcile` then compares it with the clouds: nodes that were launched since are
    terminated, those that are gone are replaced, all others are adopted as they run.
    """
    from control.db.backup import restore as put_back
    from control.db.database import open_database

    with open_database(database_url, upgrade=database_url is None) as database:
        if not yes:
            typer.confirm(f"This replaces everything in {database.name} by {file}. Do this?", abort=True)
        put_back(database, file)
        typer.echo(f"{database.name} restored from {file}.")
