"""Cost per model, the plan against its baselines: as bars in the terminal and as a PNG."""

from pathlib import Path

from rich.table import Table
from rich.text import Text

from control.planning.report import PlanReport, unmet_share, usd_per_hour_by_model


def costs(report: PlanReport) -> dict[str, dict[str, float]]:
    """Fleet (the plan first) → model → $/h."""
    fleets = {"medley": report.plan, **report.baselines}
    return {name: usd_per_hour_by_model(plan, report.snapshot) for name, plan in fleets.items()}


def terminal_chart(report: PlanReport, width: int) -> Table:
    """One bar for each model and fleet, all on one scale."""
    by_fleet = costs(report)
    largest = max((c for fleet in by_fleet.values() for c in fleet.values()), default=0.0) or 1.0
    room = max(10, min(50, width - 50))
    table = Table(title="Cost of each model", title_justify="left", title_style="bold", box=None, pad_edge=False)
    for name in ("model", "fleet", "$/h", ""):
        table.add_column(name, justify="right" if name == "$/h" else "left")
    for model in sorted({m for fleet in by_fleet.values() for m in fleet}):
        for place, (fleet, cost) in enumerate(by_fleet.items()):
            usd = cost.get(model, 0.0)
            bar = Text("█" * round(room * usd / largest) or "▏", style="cyan" if fleet == "medley" else "bright_black")
            table.add_row(model if place == 0 else "", fleet, f"{usd:,.2f}", bar)
    return table


def save_png(report: PlanReport, path: Path) -> None:
    """Raises ValueError with what to install when matplotlib is missing."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        raise ValueError("--plot needs matplotlib: pip install 'medley-serving[plot]'") from None
    by_fleet = costs(report)
    models = sorted({m for fleet in by_fleet.values() for m in fleet})
    plans = {"medley": report.plan, **report.baselines}
    with mpl.rc_context({"font.size": 9}):
        figure = Figure(figsize=(max(6.0, 1.6 * len(models) + 2), 4.0), layout="constrained")
        axes = figure.subplots()
        width = 0.8 / len(by_fleet)
        for place, (fleet, cost) in enumerate(by_fleet.items()):
            short = unmet_share(plans[fleet], report.snapshot)
            label = f"{fleet} ({sum(cost.values()):,.2f} $/h" + (f", {short:.0%} unmet)" if short > 1e-6 else ")")
            positions = [i + (place - (len(by_fleet) - 1) / 2) * width for i in range(len(models))]
            axes.bar(positions, [cost.get(m, 0.0) for m in models], width, label=label)
        axes.set_xticks(range(len(models)), models)
        axes.set_ylabel("$/h (rent and traffic)")
        axes.set_title(f"Cost per model: {report.name}")
        axes.legend(frameon=False)
        axes.spines[["top", "right"]].set_visible(False)
        figure.savefig(path, dpi=150, format="png")
