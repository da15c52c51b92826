"""`medley check`: recompute what a plan claims, with none of the planner's code."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from control.cli.acting import opened
from control.cli.options import DatabaseOption
from control.cli.output import Output, OutputOption, emit

if TYPE_CHECKING:
    from control.checker import Claim
    from templates_lib.values.plan import Plan


def check(
    plan: Annotated[Path, typer.Argument(help="A plan as `medley plan -o json` prints it.", metavar="PLAN.json")],
    snapshot: Annotated[
        Path,
        typer.Argument(help="The snapshot it was made on (`medley plan --save-snapshot`).", metavar="SNAPSHOT.json"),
    ],
    output: OutputOption = Output.TABLE,
    database_url: DatabaseOption = None,
) -> None:
    """Recompute what a plan claims.

    Price, supply, zone flows, covered demand, and that engines run what is planned on them; also what each template
    can do, where the database has the library that the plan was made from. Exit code 1 when something does not hold.
    """
    from control.checker import check as violations_of
    from control.checker import read_checkpoints, read_files

    made, seen = read_files(plan, snapshot)
    claims, why_not = _claims(made, database_url)
    violations = violations_of(made, seen, claims, read_checkpoints(snapshot))
    if output is not Output.TABLE:
        emit({"holds": not violations, "templates_checked": claims is not None, "violations": violations}, output)
    elif violations:
        for violation in violations:
            typer.echo(violation.text)
        several = len(violations) > 1
        typer.echo(f"{len(violations)} claim{'s' * several} of {plan} {'do' if several else 'does'} not hold")
    else:
        held = "templates, " if claims is not None else ""
        typer.echo(f"{plan}: {held}price, supply, flows and covered demand hold")
    if why_not:
        typer.echo(f"medley: the templates' capacities are taken from the plan: {why_not}", err=True)
    if violations:
        raise typer.Exit(1)


def _claims(plan: "Plan", database_url: str | None) -> "tuple[dict[str, Claim] | None, str]":
    """The capacities that the plan's library certified, or why they are not known: a check needs no database."""
    from control.checker import claims_of
    from control.db.errors import DatabaseError
    from control.db.libraries import PostgresLibraries

    ids = {instance.template_id for instance in plan.instances}
    try:
        with opened(database_url) as database:
            library = PostgresLibraries(database).part(plan.library_version, ids)
    except DatabaseError as error:
        return None, str(error)
    return claims_of(library, ids), ""
