"""`medley doctor`: what this machine has of what Medley needs, and what to do about the rest."""

import os
import platform
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from control.cli.options import DatabaseOption
from control.cli.output import Output, OutputOption, console, emitted, table

if TYPE_CHECKING:
    from control.doctor.check import Check


def doctor(output: OutputOption = Output.TABLE, database_url: DatabaseOption = None) -> None:
    """Show what is installed, whether the database answers, and for which clouds credentials are here.

    No cloud is asked: `medley preflight` does that for a spec. Exit code 1 when something is broken.
    """
    from control.doctor.check import Health

    found = list(_checks(database_url))
    broken = [each for each in found if each.health is Health.BROKEN]
    if not emitted(found, output):
        shown = table("", "check", "")
        for each in found:
            shown.add_row(each.health.value, each.name, each.detail)
        console().print(shown)
        missing = sum(each.health is Health.MISSING for each in found)
        typer.echo(
            f"{len(broken)} broken: mend that first"
            if broken
            else f"nothing is broken; {missing} things are missing, if you want what they are for"
        )
    if broken:
        raise typer.Exit(1)


def _checks(database_url: str | None) -> "Iterator[Check]":
    from control.doctor.accounts import of_accounts
    from control.doctor.check import Check, Health
    from control.doctor.packages import DISTRIBUTION, of_packages

    about = f"Medley {version(DISTRIBUTION)}, Python {platform.python_version()}, {platform.platform(terse=True)}"
    yield Check("version", Health.OK, about)
    yield _of_database(database_url)
    yield _of_gateway()
    yield from of_packages()
    yield from of_accounts(os.environ, Path.home())


def _of_database(database_url: str | None) -> "Check":
    from control.cli.acting import opened
    from control.cli.guard import describe
    from control.db.errors import DatabaseError
    from control.db.location import locate
    from control.db.revision import current_revision
    from control.doctor.check import Check, Health

    try:
        folder = locate(database_url, None, os.environ).data_dir
        if folder is not None and not folder.is_dir():  # opening it would make one: doctor only looks
            made_by = "the first command that stores anything makes it, such as `medley up` or `medley db upgrade`"
            return Check("database", Health.MISSING, f"none yet in {folder}: {made_by}; --database-url names another")
        with opened(database_url) as database, database.transaction() as connection:
            detail = f"{database.name} answers, its tables are at revision {current_revision(connection)}"
    except (DatabaseError, OSError, ValueError) as error:
        return Check("database", Health.BROKEN, describe(error))
    return Check("database", Health.OK, detail)


def _of_gateway() -> "Check":
    from control.cli.gateway_client import GatewayClient, NoAnswerError
    from control.db.location import home_directory
    from control.doctor.check import Check, Health
    from control.up.gateway_process import running_gateway
    from control.up.home import UpHome

    running = running_gateway(UpHome(home_directory(os.environ) / "up"))
    if running is None:
        return Check("gateway", Health.MISSING, "none runs on this machine; `medley up` starts one")
    try:
        ready = GatewayClient(running.url, "").ready()
    except NoAnswerError as error:
        return Check("gateway", Health.BROKEN, f"{error}; end `medley up` and start it again")
    serves = ", ".join(ready) if ready else "no model yet: `medley status` says what it waits for"
    return Check("gateway", Health.OK, f"{running.url} serves {serves}")
