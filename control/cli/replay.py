"""`medley replay`: a recorded span under another policy, compared with what happened."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from control.cli.acting import home, opened
from control.cli.options import DatabaseOption, one_of
from control.cli.output import Output, OutputOption, console, emitted, refuse_unwritable_folder, say, table, write_text
from control.simulator.replay.change import Change
from policies.baselines import MEDLEY, strategies
from policies.forecasts import FORECASTS

if TYPE_CHECKING:
    from control.simulator.replay.comparison import Comparison, Figures
    from control.simulator.replay.replay import Replay

_MOST_STEPS = 48
"""Shown one by one; of longer spans days are."""


def replay(
    fleet: Annotated[str, typer.Argument(help="Name of the fleet.")],
    since: Annotated[str, typer.Option(help="Begin of the span: 2026-11-01, 2026-11-01T12:00, or 90m, 24h, 7d ago.")],
    until: Annotated[str | None, typer.Option(help="Its end, as --since. Default: now.", show_default=False)] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", help="Another spec than the stored one.", metavar="SPEC", show_default=False),
    ] = None,
    strategy: Annotated[str, one_of(strategies(), "What plans.")] = MEDLEY,
    forecast: Annotated[
        str | None,
        one_of(tuple(FORECASTS), "Forecast of metered demand. Default: as in the spec.", show_default=False),
    ] = None,
    unguarded: Annotated[bool, typer.Option("--unguarded", help="Carry out every plan: no churn guard.")] = False,
    on_demand: Annotated[bool, typer.Option("--on-demand", help="Rent no spot node.")] = False,
    folder: Annotated[
        Path | None,
        typer.Option("--folder", help="Write report.html, its pictures and replay.json there.", show_default=False),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of random draws: start-up times, which nodes are lost.")] = 0,
    output: OutputOption = Output.TABLE,
    database_url: DatabaseOption = None,
) -> None:
    """Go through a recorded span of a fleet once more, under another policy or spec, and compare it with what happened.

    The real loop and planner run on the offers, demand and answers of clouds that are recorded, from the fleet that
    ran then. Nothing is rented, and the database is only read. Exits with 1 for a span that is not recorded as a whole.
    """
    import logging
    import tempfile
    import time

    from control.cli.cost import moment
    from control.cli.progress import run_progress
    from control.db.libraries import PostgresLibraries
    from control.simulator.fleet_run import Around
    from control.simulator.replay.comparison import comparison
    from control.simulator.replay.replay import Asked
    from control.simulator.replay.replay import replay as again
    from control.simulator.report.drawing import need_plots

    if folder is not None:
        need_plots()
        refuse_unwritable_folder(folder)
    logging.getLogger("control").setLevel(logging.ERROR)  # what clouds refused is a figure of the replay
    now = datetime.now(UTC)
    begin = moment("--since", since, now)
    end = now if until is None else moment("--until", until, now)
    asked = Asked(fleet, begin, end, file, Change(strategy, forecast, unguarded, on_demand), seed)
    with opened(database_url) as database, run_progress() as progress:
        around = Around(PostgresLibraries(database), progress, time.perf_counter, Path(tempfile.gettempdir()))
        found = again(database, asked, now, home(), around)
    compared = comparison(found)
    if folder is not None:
        _write(found, compared, folder)
    if emitted(compared, output):
        return
    _print(found, compared)


def _write(found: "Replay", compared: "Comparison", folder: Path) -> None:
    from control.cli.output import render
    from control.simulator.replay.replay_page import replay_charts, replay_page
    from control.simulator.report.files import write_page

    charts = replay_charts(found)
    write_page(folder, replay_page(compared, charts), charts)
    write_text(folder / "replay.json", render(compared, Output.JSON))
    say(f"Report: {folder / 'report.html'}")


def _print(found: "Replay", compared: "Comparison") -> None:
    from control.simulator.replay.comparison import lines

    every = 1 if len(found.happened.usd) <= _MOST_STEPS else 24
    changed = "; ".join(compared.policy) or "the same policy"
    typer.echo(f"{compared.fleet}, {compared.since[:16]} to {compared.until[:16]} UTC: {changed}")
    right = [each for name in ("$", "unmet %", "moves", "launched", "refused") for each in (f"{name} was", "replayed")]
    shown = table("from" if every == 1 else "day from", *right, right=right)
    for line in lines(found, every):
        shown.add_row(line.since[:16].replace("T", " "), *_cells(line.happened, line.replayed))
    shown.add_row("all", *_cells(compared.happened, compared.replayed), style="bold")
    console().print(shown)
    was, now = compared.happened, compared.replayed
    if was.usd > 0:
        typer.echo(f"{now.usd - was.usd:+,.2f} $ ({100 * (now.usd / was.usd - 1):+.1f} %)")
    if compared.unpriced_node_hours:
        say(f"not in what it was: {compared.unpriced_node_hours:,.1f} node hours whose price is not known")
    for text in (*compared.troubles, *compared.notes):
        say(text)


def _cells(was: "Figures", now: "Figures") -> list[str]:
    pairs = (
        (f"{each.usd:,.2f}", f"{100 * each.unmet_share:.2f}", str(each.moved), str(each.launched), str(each.refused))
        for each in (was, now)
    )
    return [cell for pair in zip(*pairs, strict=True) for cell in pair]
