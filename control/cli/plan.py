"""`medley plan`: the cheapest fleet for a spec file or a recorded snapshot."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from control.cli.options import DatabaseOption, SnapshotOption, SpecOption, TemplatesOption
from control.cli.output import Output, OutputOption, console, refuse_unwritable, render, say, write_text

if TYPE_CHECKING:
    from control.planning.report import PlanReport

WOULD_CHANGE = 2


def plan(
    file: SpecOption = None,
    snapshot: SnapshotOption = None,
    templates: TemplatesOption = None,
    output: OutputOption = Output.TABLE,
    save_snapshot: Annotated[
        Path | None, typer.Option(help="Record what the plan was made on, for --snapshot and `medley check`.")
    ] = None,
    output_file: Annotated[
        Path | None, typer.Option("--output", help="Write the plan here (as JSON unless -o says otherwise).")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the fleet, and its cost against the baselines, into a PNG.")
    ] = None,
    baselines: Annotated[
        bool, typer.Option("--baselines/--no-baselines", help="Compare with homogeneous fleets and Cauchy.")
    ] = True,
    detailed_exitcode: Annotated[
        bool, typer.Option("--detailed-exitcode", help="Exit with 2 when the plan would change the fleet.")
    ] = False,
    database_url: DatabaseOption = None,
) -> None:
    """Plan the cheapest fleet.

    The plan says which GPUs to rent where, what runs on them, and why. Exit codes: 0 a plan was made (demand that
    cannot be met is a result), 1 error, 2 see --detailed-exitcode.
    """
    from control.cli.planning import planned

    refuse_unwritable(save_snapshot, output_file, plot)
    report = planned(file, snapshot, templates, database_url, save_snapshot=save_snapshot, baselines=baselines)
    if plot is not None:
        from control.cli.plan_picture import save_picture

        save_picture(report, plot)
        say(f"medley: drew the plan in {plot}")
    print_report(report, output, output_file)
    if report.plan.unmet:
        more = f"`medley explain {report.plan.id[:12]}` says what is missing"
        say(f"medley: demand is not met: {', '.join(report.plan.unmet)} ({more})")
    if detailed_exitcode and report.changes_fleet:
        raise typer.Exit(WOULD_CHANGE)


def print_report(report: "PlanReport", output: Output, output_file: Path | None) -> None:
    from control.cli.plan_document import plan_document

    if output is Output.TABLE:
        from control.cli.plan_table import print_plan

        print_plan(report, console())
        if output_file is not None:
            write_text(output_file, render(plan_document(report), Output.JSON))
        return
    text = render(plan_document(report), output)
    if output_file is None:
        sys.stdout.write(text)
    else:
        write_text(output_file, text)
