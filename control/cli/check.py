"""`medley check`: recompute what a plan claims, with none of the planner's code."""

from pathlib import Path
from typing import Annotated

import typer

from control.cli.output import Output, OutputOption, emit


def check(
    plan: Annotated[Path, typer.Argument(help="A plan as `medley plan -o json` prints it.", metavar="PLAN.json")],
    snapshot: Annotated[
        Path,
        typer.Argument(help="The snapshot it was made on (`medley plan --save-snapshot`).", metavar="SNAPSHOT.json"),
    ],
    output: OutputOption = Output.TABLE,
) -> None:
    """Recompute what a plan claims.

    Price, supply, zone flows and covered demand. Exit code 1 when something does not hold.
    """
    from control.checker import check_files

    violations = check_files(plan, snapshot)
    if output is not Output.TABLE:
        emit({"holds": not violations, "violations": violations}, output)
    elif violations:
        for violation in violations:
            typer.echo(violation.text)
        typer.echo(f"{len(violations)} claims of {plan} do not hold")
    else:
        typer.echo(f"{plan}: price, supply, flows and covered demand hold")
    if violations:
        raise typer.Exit(1)
