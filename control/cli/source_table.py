"""The fitted estimate beside NVIDIA's measured kernels, on the same deployments, for people."""

from rich.console import Console

from control.cli.output import table
from templates_lib.cost.kernel_tables import NOT_INSTALLED
from templates_lib.cost.source_comparison import SourceComparison
from templates_lib.cost.validation import Errors

MOST_REASONS = 6


def print_sources(found: SourceComparison | None, console: Console) -> None:
    if found is None:
        console.print(f"estimate and kernels are not compared: {NOT_INSTALLED}", style="dim")
        return
    right = ("rows", "estimate: TTFT", "TPOT", "kernels: TTFT", "TPOT ")
    title = f"Both sources as planned, kernels of aiconfigurator-core {found.kernels}"
    shown = table("rows of", *right, right=right, title=title)
    for name, ours in found.estimated.items():
        shown.add_row(name, f"{ours.rows:,}", *_medians(ours), *_medians(found.kernel_based[name]))
    console.print(shown)
    left_out = sum(found.missing.values())
    console.print(f"median errors; {left_out:,} rows need kernels that were not timed, among them of", style="dim")
    for why, rows in list(found.missing.items())[:MOST_REASONS]:
        console.print(f"  {rows:,}: {why}", style="dim", markup=False)


def _medians(errors: Errors) -> tuple[str, str]:
    return f"{errors.median_ttft_error:.1%}", f"{errors.median_tpot_error:.1%}"
