"""`medley explain`: why the plan is as it is."""

from typing import TYPE_CHECKING

from control.cli.options import DatabaseOption, SnapshotOption, SpecOption, TemplatesOption
from control.cli.output import Output, OutputOption, console, emit

if TYPE_CHECKING:
    from control.planning.report import PlanReport

MOST_PRICES = 15


def explain(
    file: SpecOption = None,
    snapshot: SnapshotOption = None,
    templates: TemplatesOption = None,
    output: OutputOption = Output.TABLE,
    database_url: DatabaseOption = None,
) -> None:
    """Say why the plan is as it is.

    Which constraint binds, what one more node of each kind would save, and why not the runner-up.
    """
    from control.cli.planning import planned

    report = planned(file, snapshot, templates, database_url, save_snapshot=None, baselines=False)
    if output is Output.TABLE:
        _print(report)
        return
    plan = report.plan
    emit({"plan": plan.id, "usd_per_hour": plan.usd_per_hour, "reasons": plan.reasons, "duals": plan.duals}, output)


def _print(report: "PlanReport") -> None:
    from rich.table import Table

    from control.cli.plan_table import reason_lines

    plan, screen = report.plan, console()
    screen.print(
        f"Plan {plan.id[:12]} for {report.name}: {plan.usd_per_hour:,.2f} $/h, {plan.status}, gap {plan.gap:.2%}"
    )
    screen.print(reason_lines(plan.reasons))
    prices = sorted(plan.duals.items(), key=lambda item: -abs(item[1]))[:MOST_PRICES]
    table = Table(title="Shadow prices of the relaxation, $/h per unit (about: whole nodes may differ)")
    table.title_justify, table.box, table.pad_edge = "left", None, False
    table.add_column("constraint")
    table.add_column("$/h", justify="right")
    for name, price in prices:
        table.add_row(name, f"{price:,.4g}")
    if prices:
        screen.print(table)
