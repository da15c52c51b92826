"""`medley plans`: stored plans."""

from typing import Annotated

import typer

from control.cli.guard import Commands
from control.cli.options import DatabaseOption, LimitOption
from control.cli.output import Output, OutputOption, console, emitted, table

app = Commands(name="plans", help="List and show stored plans.", no_args_is_help=True)


@app.command("list")
def list_(limit: LimitOption = 20, output: OutputOption = Output.TABLE, database_url: DatabaseOption = None) -> None:
    """List plans, the newest first."""
    from control.cli.planning import session

    with session(database_url) as opened:
        plans = opened.plans.newest(limit)
    if emitted(plans, output):
        return
    right = ("$/h", "unmet requests/s")
    shown = table("plan", "made at", "fleet", "policy", *right, "snapshot", right=right)
    for plan in plans:
        unmet = ", ".join(f"{key} {rate:.3g}" for key, rate in plan.unmet.items())
        shown.add_row(
            plan.id[:12], plan.created_at, plan.name, plan.policy, f"{plan.usd_per_hour:,.2f}", unmet,
            plan.snapshot_version[:12],
        )  # fmt: skip
    console().print(shown)


@app.command("show")
def show(
    plan: Annotated[str, typer.Argument(help="Id of a stored plan, or its beginning.")],
    output: OutputOption = Output.TABLE,
    database_url: DatabaseOption = None,
) -> None:
    """Show a stored plan as `medley plan` did, without the baselines."""
    from control.cli.plan import print_report
    from control.cli.planning import session

    with session(database_url) as opened:
        report = opened.kept_report(opened.plans.find(plan))
    print_report(report, output, None)
