"""`medley profile`: what step times rest on, and how far they are off what was measured."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from control.cli import profile_rented
from control.cli.guard import Commands
from control.cli.options import DatabaseOption, one_of
from control.cli.output import Output, OutputOption, console, emit, emitted, table
from control.cli.reconcile import ImageOption, images_of
from control.db.location import home_directory

if TYPE_CHECKING:
    from templates_lib.cost.coefficients import Origin
    from templates_lib.cost.validation import Errors, ValidationReport

app = Commands(name="profile", help="Measure, inspect and validate step times.", no_args_is_help=True)


app.command("rented")(profile_rented.rented)
app.command("end")(profile_rented.end)


@app.command("run")
def run(
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="Spec file: of local nodes, or of what to rent.", metavar="SPEC")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Measure also what was measured before.")] = False,
    cloud: Annotated[str | None, typer.Option(help="Rent a node there, and have it measure itself.")] = None,
    config: Annotated[str | None, typer.Option(help="GPUs of the node to rent, such as L40S:1 or H100:8.")] = None,
    model: Annotated[
        str | None, typer.Option(help="Model to measure. Default: the spec's only one, else qwen3-32b.")
    ] = None,
    zone: Annotated[str, typer.Option(help="Rent in this zone. Default: where it is cheapest.")] = "",
    spot: Annotated[bool, typer.Option("--spot", help="Rent at the spot price: the cloud may take the node.")] = False,
    pair: Annotated[
        bool, typer.Option("--pair", help="Rent two nodes, and measure what lies between them, too.")
    ] = False,
    device: Annotated[
        str, one_of(("cuda", "cpu"), "What to measure; cpu tries the way without a GPU, and no plan rests on it.")
    ] = "cuda",
    max_usd: Annotated[float, typer.Option(min=0, help="Most that it may cost: dearer offers are not rented.")] = 5.0,
    max_minutes: Annotated[
        float, typer.Option(min=1, max=600, help="Give back after as long, whatever is measured by then.")
    ] = 45.0,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before something is rented.")] = False,
    image: ImageOption = None,
    output: OutputOption = Output.TABLE,
    database_url: DatabaseOption = None,
) -> None:
    """Measure step times through the engine, and print how far the fit is off.

    With -f alone those of this machine's nodes. With --cloud and --config a node is rented as launches rent theirs: it
    measures prompts, further tokens and both in one step (over all its GPUs, cut by heads), what scheduler and workers
    cost, and what a byte of KV cache costs; with --pair also hops of activations and KV caches between two nodes. What
    it may cost is said and asked before; whatever happens, what was rented is given back. `medley profile rented`
    lists what is rented, `medley profile end` gives back what a run has left that was killed.
    """
    if cloud is None and config is None:
        _measure_local(file, again, output)
        return
    if cloud is None or config is None:
        raise ValueError("give both --cloud, such as aws, and --config, such as L40S:1")
    from control.actions.ask_measurement import AskedMeasurement
    from control.profiles.quotation import Limits

    limits = Limits(max_usd, max_minutes)
    asked = AskedMeasurement(cloud, config, model or "", zone, spot, pair, device, limits)
    profile_rented.run_rented(asked, file, images_of(image or ()), yes, output, database_url)


def _measure_local(file: Path | None, again: bool, output: Output) -> None:
    from datetime import UTC, datetime

    from control.cli.profile_table import print_profiles
    from control.cli.progress import build_progress
    from control.planning.local_profiles import ensure_profiles, profile_store
    from control.planning.world import read_world

    if file is None:
        raise ValueError("give -f SPEC, whose local nodes are measured, or --cloud and --config of a node to rent")
    world, home = read_world(file), home_directory(os.environ)
    if not world.fleet.machines:
        raise ValueError(f"{file}: has no local nodes; --cloud and --config rent a node that measures itself")
    with build_progress() as progress:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        measured = ensure_profiles(world, home, progress, now, again=again).recipe.profiles
    store = profile_store(home)
    stored = [one for profile in measured if (one := store.get(profile.subject)) is not None and one.rented is None]
    print_profiles(stored, output)


@app.command("fit")
def fit(output: OutputOption = Output.TABLE) -> None:
    """Fit every stored profile again, from what was measured then."""
    from control.cli.profile_table import known_profiles, print_profiles
    from control.planning.local_profiles import profile_store, refit

    stored = [refit(one) for one in known_profiles()]
    for one in stored:
        profile_store(home_directory(os.environ)).put(one)
    print_profiles(stored, output)


@app.command("validate")
def validate(
    rows: Annotated[
        Path, typer.Option(help="CSV of measured deployments (columns as aiconf_silicon_end_to_end.csv.gz).")
    ],
    output: OutputOption = Output.TABLE,
) -> None:
    """Predict every measured deployment of a file and print how far the prediction is off.

    Where NVIDIA's kernel times are installed (extra `kernels`), both sources are compared on the deployments that these
    can express.
    """
    from dataclasses import asdict

    from control.cli.source_table import print_sources
    from templates_lib.cost.source_comparison import compare_sources
    from templates_lib.cost.validation import comparable, read_rows, report_of

    kept, skipped, dropped = comparable(read_rows(rows))
    report, sources = report_of(kept, skipped, dropped), compare_sources([deployment for _, deployment in kept])
    if not emitted(report.to_dict() | {"sources": None if sources is None else asdict(sources)}, output):
        _print(report)
        print_sources(sources, console())


@app.command("list")
def list_(output: OutputOption = Output.TABLE) -> None:
    """List what step times rest on.

    Profiles of this machine's nodes, measured against estimated; the GPUs and engines of the estimate: what was
    measured on each, what is lent and by whom; and NVIDIA's kernel tables, where they are installed (extra `kernels`).
    """
    from dataclasses import asdict

    from control.cli.kernel_table import kernel_document, print_kernels
    from control.cli.profile_table import known_profiles, print_comparisons, profile_document
    from templates_lib.cost.coefficients import load_coefficients
    from templates_lib.values.hardware import load_gpus

    known = load_coefficients()
    gpus = {name: known.gpu(name) for name in load_gpus()}
    engines = {name: engine.evidence for name, engine in known.engines.items()}
    profiles = known_profiles()
    if output is not Output.TABLE:
        cards = {
            n: {"evidence": g.evidence, "parts": {p: asdict(o) for p, o in g.origins.items()}} for n, g in gpus.items()
        }
        setups = {name: setup.engine.evidence for name, setup in known.setups.items()}
        about = {"fingerprint": known.fingerprint, "date": known.date, "source": known.source}
        measured = [profile_document(stored) for stored in profiles]
        estimate = {"gpus": cards, "engines": engines, "setups": setups}
        emit({**about, **estimate, "profiles": measured, "kernels": kernel_document()}, output)
        return
    if profiles:
        print_comparisons(profiles, console())
    parts = next(iter(gpus.values())).origins
    shown = table("GPU", *(part.replace("_", " ") for part in parts))
    for name, card in gpus.items():
        shown.add_row(name, *(_origin(name, card.origins[part]) for part in parts))
    console().print(shown)
    sys.stdout.write("a number: measured rows that were fitted; `of`: lent by that card; `assumed`: by analogy\n")
    print_kernels(kernel_document(), console())
    for name, evidence in engines.items():
        sys.stdout.write(f"engine {name}: {evidence}\n")
    sys.stdout.write(f"{len(known.setups)} releases and machines of these engines are fitted apart, for validation\n")
    sys.stdout.write(f"cost model {known.fingerprint}, {known.date}; source: {known.source}\n")


def _origin(gpu: str, origin: "Origin") -> str:
    if origin.gpu != gpu:
        return "median of six" if "," in origin.gpu else f"of {origin.gpu}"
    return f"{origin.rows:,}" if origin.rows else "assumed"


def _print(report: "ValidationReport") -> None:
    sys.stdout.write(f"{report.used:,} of {report.rows:,} rows used; {report.skipped_share:.1%} skipped\n")
    for what, reasons in (("skipped", report.skipped), ("dropped", report.dropped)):
        for reason, count in sorted(reasons.items(), key=lambda item: -item[1]):
            sys.stdout.write(f"  {what} {count:,}: {reason}\n")
    right = ("rows", "TTFT median", "p90", "bias", "TPOT median", "p90", "bias")
    shown = table("rows of", *right, right=right)
    whole = {
        "all": report.overall,
        "held out of the fit": report.held_out,
        "held-out deployments": report.held_out_deployments,
        "all, as planned": report.as_planned,
    }
    parts = (whole, report.per_gpu, report.per_model, report.per_backend, report.per_mode)
    for part in parts:
        for name, errors in part.items():
            shown.add_row(name, *_cells(errors))
        shown.add_section()
    console().print(shown)
    sys.stdout.write(
        "errors are |predicted / measured - 1|; a bias above 1 is predicted too slow; rows are predicted\n"
    )
    sys.stdout.write(
        "by their engine's release and machine where enough was measured, `as planned` by the engine alone\n"
    )


def _cells(e: "Errors") -> tuple[str, ...]:
    if not e.rows:
        return "0", *("-",) * 6
    ttft = f"{e.median_ttft_error:.1%}", f"{e.p90_ttft_error:.1%}", f"{e.ttft_bias:.2f}"
    return f"{e.rows:,}", *ttft, f"{e.median_tpot_error:.1%}", f"{e.p90_tpot_error:.1%}", f"{e.tpot_bias:.2f}"
