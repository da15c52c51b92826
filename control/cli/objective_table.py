"""Costs under other objectives as a table for people."""

from rich.console import Console
from rich.text import Text

from control.cli.output import table
from control.planning.objective_costs import Curve, Point
from control.planning.objectives import Objective

BAR = 40


def print_curves(curves: list[Curve], usd_per_hour: float, console: Console) -> None:
    """`usd_per_hour`: of the plan in force."""
    most = max((p.usd_per_hour or 0.0 for curve in curves for p in curve.points), default=0.0) or 1.0
    for curve in curves:
        objective = Objective(curve.model, curve.axis)
        shown = table(
            curve.axis.label, "$/h", "change", "", "", right=("$/h", "change"),
            title=f"{objective.text}, cost of the whole fleet",
        )  # fmt: skip
        for point in curve.points:
            is_now = point.value == curve.now
            style = "bold" if is_now else ""
            cost, change, bar = "-", "", Text("")
            if point.usd_per_hour is not None:
                cost, change = f"{point.usd_per_hour:,.2f}", f"{point.usd_per_hour - usd_per_hour:+,.2f}"
                bar = Text("█" * round(BAR * point.usd_per_hour / most), style="cyan" if is_now else "bright_black")
            value = f"{curve.axis.text(point.value)}{' (now)' if is_now else ''}"
            shown.add_row(value, cost, "" if is_now else change, bar, _note(point), style=style)
        console.print(shown)
        if problems := [point.problem for point in curve.points if point.problem]:
            console.print(Text(f"- {problems[-1]}"), soft_wrap=True)  # of the easiest, which is the nearest
        console.print()


def _note(point: Point) -> str:
    if point.problem:
        return "no template keeps it"
    unmet = f"{point.unmet_share:.1%} of the demand unmet" if point.unmet_share > 1e-6 else ""
    return "; ".join(filter(None, (unmet, "" if point.is_kept else "not kept in simulation")))
