"""`medley cost`: what was spent, on what, and the forecast of the month."""

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from control.cli.acting import opened
from control.cli.options import DatabaseOption
from control.cli.output import Output, OutputOption, console, emitted, table
from control.ledger.cost_line import By

if TYPE_CHECKING:
    from control.cost.report import CostReport
    from control.ledger.period import Period

_AGO = re.compile(r"(\d{1,5})([mhd])")
_FIGURES = ("$", "$/h", "nodes")
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


SinceOption = Annotated[
    str | None,
    typer.Option(
        help="Start of the period: 2026-11-01, 2026-11-01T12:00, or 90m, 24h, 7d ago. Default: of this month.",
        show_default=False,
    ),
]
UntilOption = Annotated[str | None, typer.Option(help="Its end, as --since. Default: now.", show_default=False)]


def cost(
    by: Annotated[By, typer.Option(help="What costs are grouped by.")] = By.MODEL,
    since: SinceOption = None,
    until: UntilOption = None,
    output: OutputOption = Output.TABLE,
    database_url: DatabaseOption = None,
) -> None:
    """Show what was spent, to the cent: a node costs from its intent until it is gone. Times are UTC.

    Also shows what is spent an hour now, today, this month, by its end at this rate, and what leaked: the cost of nodes
    that no row explains.
    """
    from control.cost.report import cost_report
    from control.db.ledger import PostgresLedger

    now = datetime.now(UTC)
    span = period(since, until, now)
    with opened(database_url) as database:
        report = cost_report(PostgresLedger(database), span, by, now)
    if not emitted(report, output):
        _print(report)


def period(since: str | None, until: str | None, now: datetime) -> "Period":
    """Read `--since` and `--until`: of this month, until now, unless they say otherwise. Raises ValueError."""
    from control.ledger.period import Period, month_so_far

    begin = month_so_far(now).since if since is None else moment("--since", since, now)
    return Period(begin, now if until is None else min(now, moment("--until", until, now)))


def moment(option: str, text: str, now: datetime) -> datetime:
    """Read a time, UTC where it names no zone. Raises ValueError."""
    if (ago := _AGO.fullmatch(text)) is not None:
        return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{option} {text!r} is no time; write 2026-11-01, 2026-11-01T12:00, or 24h or 7d ago"
        ) from None
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def _print(report: "CostReport") -> None:
    typer.echo(f"{report.since[:16].replace('T', ' ')} to {report.until[:16].replace('T', ' ')} UTC")
    shown = table(report.by.value, *_FIGURES, right=_FIGURES)
    for line in report.lines:
        shown.add_row(line.name, f"{line.usd:,.2f}", f"{line.usd_per_hour:,.4f}", str(line.nodes))
    shown.add_row("all", f"{report.usd:,.2f}", "", "", style="bold")
    console().print(shown)
    typer.echo(f"now {report.usd_per_hour:,.4f} $/h for {report.nodes} nodes; today {report.today_usd:,.2f} $")
    typer.echo(f"this month {report.month_usd:,.2f} $, at this rate {report.month_forecast_usd:,.2f} $ by its end")
    if report.unpriced_node_hours:
        typer.echo(f"not included: {report.unpriced_node_hours:,.1f} node hours whose price is not known")
    nodes = f"; {report.leaked_nodes} such nodes exist now" if report.leaked_nodes else ""
    typer.echo(f"leaked: {report.leaked_usd:,.2f} ${nodes}")
