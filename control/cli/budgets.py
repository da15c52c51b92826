"""`medley budgets`: what fleets and projects may spend, and what they have spent of it."""

import math
from typing import TYPE_CHECKING, Annotated

import typer

from control.cli.acting import acting
from control.cli.guard import Commands
from control.cli.options import DatabaseOption
from control.cli.output import Output, OutputOption, console, emitted, say, table

if TYPE_CHECKING:
    from control.cost.budgets import BudgetReport
    from control.db.budgets import Scope

app = Commands(name="budgets", help="Set, list and remove budgets of fleets and projects.", no_args_is_help=True)

FleetOption = Annotated[str | None, typer.Option("--fleet", help="Budget of this fleet.", show_default=False)]
ProjectOption = Annotated[str | None, typer.Option("--project", help="Or of this project.", show_default=False)]


@app.command("set")
def set_(
    fleet: FleetOption = None,
    project: ProjectOption = None,
    usd_per_hour: Annotated[float | None, typer.Option(help="Limit at any time.", show_default=False)] = None,
    usd_per_month: Annotated[float | None, typer.Option(help="For a month, in UTC.", show_default=False)] = None,
    floor: Annotated[float, typer.Option(help="$/h granted even when the month's money is spent.")] = 0.0,
    database_url: DatabaseOption = None,
) -> None:
    """Set a budget, in place of the one before.

    A fleet whose plan costs more gives up, one after the other: on-demand for spot, latency and head-room, and demand
    of the lowest priority (docs/cost.md). It is drained, never killed.
    """
    from control.actions.budgets import set_budget

    scope, name = _whose(fleet, project)
    with acting(database_url) as act:
        report = set_budget(act, scope, name, usd_per_hour, usd_per_month, floor)
    typer.echo(f"Budget of {scope} {name} set: {_limits(report)}.")
    if report.usd_per_hour > (report.usd_per_hour_limit or math.inf):
        say(f"medley: it spends {report.usd_per_hour:,.2f} $/h now: the next plan gives up what does not fit")


@app.command("list")
def list_(output: OutputOption = Output.TABLE, database_url: DatabaseOption = None) -> None:
    """List budgets with what is spent of each now, this month, and by its end at this rate."""
    from control.actions.budgets import budget_reports
    from control.db.budgets import PostgresBudgets

    with acting(database_url) as act:
        found, less = budget_reports(act.database, act.now), PostgresBudgets(act.database).all_given_up()
    if emitted(found, output):
        return
    if not found:
        typer.echo("No budget is set: `medley budgets set --fleet NAME --usd-per-month 5000` sets one.")
        return
    right = ("$/h now", "$ this month", "$ by its end")
    shown = table("budget of", "limit", *right, right=right)
    for each in found:
        spent = (f"{each.usd_per_hour:,.4f}", f"{each.month_usd:,.2f}", f"{each.month_forecast_usd:,.2f}")
        shown.add_row(f"{each.scope} {each.name}", _limits(each), *spent)
    console().print(shown)
    for fleet, up in less.items():
        typer.echo(f"fleet {fleet}: {up.rung.text} since {up.since[:16]}: {'; '.join(up.reasons)}")


@app.command("remove")
def remove(fleet: FleetOption = None, project: ProjectOption = None, database_url: DatabaseOption = None) -> None:
    """Remove a budget: only the spec's own policy limits what is spent then."""
    from control.actions.budgets import remove_budget

    scope, name = _whose(fleet, project)
    with acting(database_url) as act:
        remove_budget(act, scope, name)
    typer.echo(f"Budget of {scope} {name} removed.")


def _whose(fleet: str | None, project: str | None) -> "tuple[Scope, str]":
    from control.db.budgets import Scope

    given = [(scope, name) for scope, name in ((Scope.FLEET, fleet), (Scope.PROJECT, project)) if name]
    if len(given) != 1:
        raise ValueError("say whose budget it is: --fleet NAME or --project NAME")
    return given[0]


def _limits(report: "BudgetReport") -> str:
    both = ((report.usd_per_hour_limit, "$/h"), (report.usd_per_month_limit, "$/month"))
    return ", ".join(f"{limit:,.2f} {unit}" for limit, unit in both if limit is not None)
