"""`medley profile`: what step times rest on, and how far they are off what others measured."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from control.cli.guard import guarded
from control.cli.output import Output, OutputOption, console, emit

if TYPE_CHECKING:
    from templates_lib.cost.validation import Errors, ValidationReport

app = typer.Typer(name="profile", help="Inspect and validate the cost model.", no_args_is_help=True)


@app.command("validate")
@guarded
def validate(
    rows: Annotated[
        Path, typer.Option(help="CSV of measured deployments (columns as aiconf_silicon_end_to_end.csv.gz).")
    ],
    output: OutputOption = Output.TABLE,
) -> None:
    """Predict every measured deployment of a file and print how far the prediction is off."""
    from templates_lib.cost.validation import read_rows, validate_rows

    report = validate_rows(read_rows(rows))
    if output is Output.TABLE:
        _print(report)
    else:
        emit(report.to_dict(), output)


@app.command("list")
@guarded
def list_(output: OutputOption = Output.TABLE) -> None:
    """List the GPUs and engines whose step times are known, each with the measurements behind it."""
    from templates_lib.cost.coefficients import load_coefficients
    from templates_lib.hardware import load_gpus

    known = load_coefficients()
    gpus = {name: known.gpu(name).evidence for name in load_gpus()}
    engines = {name: engine.evidence for name, engine in known.engines.items()}
    if output is not Output.TABLE:
        emit({"fingerprint": known.fingerprint, "date": known.date, "gpus": gpus, "engines": engines}, output)
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name in ("for", "estimated from"):
        table.add_column(name)
    for name, evidence in (gpus | engines).items():
        table.add_row(name, evidence)
    console().print(table)
    sys.stdout.write(f"cost model {known.fingerprint}, {known.date}; source: {known.source}\n")


def _print(report: "ValidationReport") -> None:
    from rich.table import Table

    sys.stdout.write(f"{report.used:,} of {report.rows:,} rows used; {report.skipped_share:.1%} skipped\n")
    for what, reasons in (("skipped", report.skipped), ("dropped", report.dropped)):
        for reason, count in sorted(reasons.items(), key=lambda item: -item[1]):
            sys.stdout.write(f"  {what} {count:,}: {reason}\n")
    table = Table(box=None, pad_edge=False)
    for name in ("rows of", "rows", "TTFT median", "p90", "bias", "TPOT median", "p90", "bias"):
        table.add_column(name, justify="left" if name == "rows of" else "right")
    whole = {
        "all": report.overall,
        "held out of the fit": report.held_out,
        "held-out deployments": report.held_out_deployments,
    }
    parts = (whole, report.per_gpu, report.per_model, report.per_backend, report.per_mode)
    for part in parts:
        for name, errors in part.items():
            table.add_row(name, *_cells(errors))
        table.add_section()
    console().print(table)
    sys.stdout.write("errors are |predicted / measured - 1|; a bias above 1 is predicted too slow\n")


def _cells(e: "Errors") -> tuple[str, ...]:
    if not e.rows:
        return "0", *("-",) * 6
    ttft = f"{e.median_ttft_error:.1%}", f"{e.p90_ttft_error:.1%}", f"{e.ttft_bias:.2f}"
    return f"{e.rows:,}", *ttft, f"{e.median_tpot_error:.1%}", f"{e.p90_tpot_error:.1%}", f"{e.tpot_bias:.2f}"
