"""`medley budgets`: what fleets and projects may spend, and what they have spent of it."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from control.cli.audit import did
from control.cli.guard import guarded
from control.cli.options import DatabaseOption
from control.cli.output import Output, OutputOption, console, emit, say

if TYPE_CHECKING:
    from control.db.budgets import Scope

app = typer.Typer(name="budgets", help="Set, list and remove budgets of fleets and projects.", no_args_is_help=True)

FleetOption = Annotated[str | None, typer.Option("--fleet", help="Whose budget it is.", show_default=False)]
ProjectOption = Annotated[str | None, typer.Option("--project", help="Or of a project.", show_default=False)]


@app.command("set")
@guarded
def set_(
    fleet: FleetOption = None,
    project: ProjectOption = None,
    usd_per_hour: Annotated[float | None, typer.Option(help="At most, at any time.", show_default=False)] = None,
    usd_per_month: Annotated[float | None, typer.Option(help="Of a month, in UTC.", show_default=False)] = None,
    floor: Annotated[float, typer.Option(help="$/h granted even when the month's money is spent.")] = 0.0,
    database_url: DatabaseOption = None,
) -> None:
    """Set a budget, in place of the one before.

    A fleet whose plan costs more gives up, one after the other: on-demand for spot, latency and head-room, and demand
    of the lowest priority (docs/cost.md). It is drained, never killed.
    """
    from control.db.budgets import PostgresBudgets, Scope
    from control.db.database import open_database
    from control.db.fleets import PostgresFleets
    from control.given_name import check_name
    from policies.budget import Budget

    scope, name = _whose(fleet, project)
    check_name(scope, name)
    budget = Budget(usd_per_hour, usd_per_month, floor)
    limits, now = _limits(usd_per_hour, usd_per_month), datetime.now(UTC)
    with open_database(database_url) as database, database.as_one() as one:
        PostgresBudgets(one).put(scope, name, budget, now)
        what = f"set {limits} for {scope} {name}"
        did(one, now, "budget.changed", what, fleet=fleet or "", subject=name, detail=budget.given)
        names = {each.name for each in PostgresFleets(one).all()} if scope is Scope.FLEET else {name}
    typer.echo(f"{scope} {name} has a budget: {limits}")
    if name not in names:
        say(f"medley: no fleet {name} is on record yet: it will have this budget (`medley fleets list`)")


@app.command("list")
@guarded
def list_(output: OutputOption = Output.TABLE, database_url: DatabaseOption = None) -> None:
    """List budgets with what is spent of each now, this month, and by its end at this rate."""
    from control.cost.budgets import budget_book
    from control.db.budgets import PostgresBudgets
    from control.db.database import open_database
    from control.db.ledger import PostgresLedger

    with open_database(database_url) as database:
        budgets = PostgresBudgets(database)
        found = budget_book(budgets, PostgresLedger(database), datetime.now(UTC)).reports()
        less = budgets.all_given_up()
    if output is not Output.TABLE:
        emit(found, output)
        return
    if not found:
        typer.echo("no budget is set: `medley budgets set --fleet NAME --usd-per-month 5000` sets one")
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in ("budget of", "limit", "$/h now", "$ this month", "$ by its end"):
        table.add_column(heading, justify="left" if heading in ("budget of", "limit") else "right")
    for each in found:
        table.add_row(
            f"{each.scope} {each.name}",
            _limits(each.usd_per_hour_limit, each.usd_per_month_limit),
            f"{each.usd_per_hour:,.4f}",
            f"{each.month_usd:,.2f}",
            f"{each.month_forecast_usd:,.2f}",
        )
    console().print(table)
    for fleet, up in less.items():
        typer.echo(f"fleet {fleet}: {up.rung.text} since {up.since[:16]}: {'; '.join(up.reasons)}")


@app.command("remove")
@guarded
def remove(fleet: FleetOption = None, project: ProjectOption = None, database_url: DatabaseOption = None) -> None:
    """Remove a budget: what it is of may spend what its plan costs."""
    from control.db.budgets import PostgresBudgets
    from control.db.database import open_database

    scope, name = _whose(fleet, project)
    now = datetime.now(UTC)
    with open_database(database_url) as database, database.as_one() as one:
        PostgresBudgets(one).remove(scope, name)
        did(one, now, "budget.removed", f"removed the budget of {scope} {name}", fleet=fleet or "", subject=name)
    typer.echo(f"{scope} {name} has no budget any more")


def _whose(fleet: str | None, project: str | None) -> "tuple[Scope, str]":
    from control.db.budgets import Scope

    given = [(scope, name) for scope, name in ((Scope.FLEET, fleet), (Scope.PROJECT, project)) if name]
    if len(given) != 1:
        raise ValueError("say whose budget it is: --fleet NAME or --project NAME")
    return given[0]


def _limits(usd_per_hour: float | None, usd_per_month: float | None) -> str:
    both = ((usd_per_hour, "$/h"), (usd_per_month, "$/month"))
    return ", ".join(f"{limit:,.2f} {unit}" for limit, unit in both if limit is not None)
