"""`medley simulate`: a scenario through the real planner, router and policies, on this machine."""

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from control.cli.acting import opened
from control.cli.options import DatabaseOption
from control.cli.output import Output, OutputOption, console, emitted, refuse_unwritable_folder, say, table

if TYPE_CHECKING:
    from control.simulator.report.summary import ModelSummary, Summary


class RowKind(StrEnum):
    CSV = "csv"
    PARQUET = "parquet"


def simulate(
    file: Annotated[Path, typer.Option("--file", "-f", help="Scenario file (apiVersion: medley/v1, kind: Scenario).")],
    folder: Annotated[
        Path | None,
        typer.Option("--folder", help="Folder for the results. Default: <name>-simulated, here.", show_default=False),
    ] = None,
    rows: Annotated[RowKind, typer.Option(help="How rows of requests, nodes and epochs are written.")] = RowKind.CSV,
    plots: Annotated[bool, typer.Option("--plots/--no-plots", help="Write pictures and report.html.")] = True,
    output: OutputOption = Output.TABLE,
    database_url: DatabaseOption = None,
) -> None:
    """Simulate a fleet over logs of traffic, prices and availability, or the plan of a recorded snapshot: what it
    costs, and what requests see of it.

    Prints a summary; the folder gets summary.json, rows of everything, pictures and one page with them all. Nothing is
    rented; of the database only libraries of templates are used, and built on first use.
    """
    import logging
    import os
    import tempfile
    import time

    from control.cli.progress import run_progress
    from control.db.libraries import PostgresLibraries
    from control.db.location import home_directory
    from control.planning.local_profiles import with_known_profiles
    from control.simulator.fleet_run import Around
    from control.simulator.report.drawing import need_plots
    from control.simulator.report.files import RowFormat, need_format, write_results
    from control.simulator.run import simulate as run
    from control.simulator.scenario import FleetScenario, read_scenario

    form = RowFormat(rows.value)
    need_format(form)
    if plots:
        need_plots()
    scenario = read_scenario(file)
    target = Path(f"{scenario.name}-simulated") if folder is None else folder
    refuse_unwritable_folder(target)
    logging.getLogger("control").setLevel(logging.ERROR)  # what clouds refuse is an event of the simulation
    if isinstance(scenario, FleetScenario):
        scenario = replace(scenario, world=with_known_profiles(scenario.world, home_directory(os.environ)))
    with opened(database_url) as database, run_progress() as progress:
        around = Around(PostgresLibraries(database), progress, time.perf_counter, Path(tempfile.gettempdir()))
        summary = write_results(run(scenario, around), target, rows=form, plots=plots, progress=progress)
    if not emitted(summary, output):
        _print(summary)
        say(f"Report: {target / 'report.html'}" if plots else f"Results: {target}")


def _print(summary: "Summary") -> None:
    facts = summary.facts
    typer.echo(
        f"{facts.name}: fleet {facts.fleet} for {summary.hours:.3g} h under {facts.strategy}, "
        f"{summary.requests:,} requests"
    )
    of_text = ("TTFT p50", "p99 ms", "TPOT p50", "p99 ms", "goodput tokens/s")
    words = of_text if summary.makes_text else ("answer p50", "p99 ms", "goodput requests/s")
    right = ("requests", "within SLO %", *words, "refused", "as late")
    shown = table("model", *right, right=right)
    for model in summary.models:
        shown.add_row(model.name, f"{model.requests:,}", *_figures(model, of_text=summary.makes_text))
    console().print(shown)
    goodput = f"; {summary.goodput_tokens_per_s:,.0f} output tokens/s within the objectives"
    typer.echo(
        f"{summary.spent_usd:,.2f} $ for nodes, {summary.spent_usd_per_hour:,.2f} $/h "
        f"(plans: {summary.planned_usd_per_hour:,.2f} $/h, start-ups {summary.init_usd_per_hour:,.2f} $/h)"
        f"{goodput if summary.makes_text else ''}"
    )
    for note in (*facts.notes, f"step times are {facts.cost_model}"):
        say(note)


def _figures(model: "ModelSummary", *, of_text: bool) -> list[str]:
    within = "-" if model.within_share is None else f"{100 * model.within_share:.2f}"
    gaps = (model.tpot_ms.p50, model.tpot_ms.p99) if of_text else ()
    shown = ["-" if each is None else f"{each:,.0f}" for each in (model.ttft_ms.p50, model.ttft_ms.p99, *gaps)]
    goodput = f"{model.goodput_tokens_per_s:,.0f}" if of_text else f"{model.goodput_requests_per_s:,.2f}"
    return [within, *shown, goodput, *(f"{model.fates[fate]:,}" for fate in ("refused", "refused_late"))]
