"""Cost per model, the plan against its baselines, as bars in the terminal."""

from rich.table import Table
from rich.text import Text

from control.cli.output import table
from control.planning.report import PlanReport, usd_per_hour_by_model


def costs(report: PlanReport) -> dict[str, dict[str, float]]:
    """Fleet (the plan first) → model → $/h."""
    return {name: usd_per_hour_by_model(plan, report.snapshot) for name, plan in report.fleets.items()}


def terminal_chart(report: PlanReport, width: int) -> Table:
    """One bar for each model and fleet, all on one scale."""
    by_fleet = costs(report)
    largest = max((c for fleet in by_fleet.values() for c in fleet.values()), default=0.0) or 1.0
    room = max(10, min(50, width - 50))
    shown = table("model", "fleet", "$/h", "", right=("$/h",), title="Cost of each model")
    for model in sorted({m for fleet in by_fleet.values() for m in fleet}):
        for place, (fleet, cost) in enumerate(by_fleet.items()):
            usd = cost.get(model, 0.0)
            bar = Text("█" * round(room * usd / largest) or "▏", style="cyan" if fleet == "medley" else "bright_black")
            shown.add_row(model if place == 0 else "", fleet, f"{usd:,.2f}", bar)
    return shown
