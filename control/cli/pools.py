"""`medley pools`: members and load of each work class, against what is planned."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from control.cli.acting import opened
from control.cli.options import DatabaseOption
from control.cli.output import Output, OutputOption, console, emitted, table

if TYPE_CHECKING:
    from control.fleet.pools import Pool


def pools(
    fleet: Annotated[str | None, typer.Argument(help="Name of the fleet; default: all.")] = None,
    output: OutputOption = Output.TABLE,
    database_url: DatabaseOption = None,
) -> None:
    """Show the pools of fleets by their plans in force: members ready of those planned, and the load of the last ten
    seconds against the capacity; what is planned for instead of the forecast, and the last burst."""
    from control.db.fleets import PostgresFleets
    from control.fleet.pools import FleetPools

    now = datetime.now(UTC)
    with opened(database_url) as database:
        stored = PostgresFleets(database)
        records = stored.all() if fleet is None else (stored.load(fleet),)
        looked = FleetPools.of(database, now)
        found = [pool for record in records for pool in looked.pools(record)]
    if emitted(found, output):
        return
    if not found:
        typer.echo("No pool is planned, and none serves: `medley fleets` says what the fleets follow.")
        return
    right = ("ready", "load/s", "capacity/s", "used")
    shown = table("fleet", "model", "stage", *right, "unit", "nodes", right=right)
    for each in found:
        shown.add_row(*_row(each))
    console().print(shown)
    if any(each.load_of == "minute" for each in found):
        typer.echo("*: of the last whole minute; gateways say nothing of the last seconds.")
    for line in dict.fromkeys(line for each in found for line in _said(each)):
        typer.echo(line)


def _row(pool: "Pool") -> tuple[str, ...]:
    load = "" if pool.load_units_per_s is None else f"{pool.load_units_per_s:.3g}"
    return (
        pool.fleet,
        pool.model,
        pool.work_class.removeprefix(f"{pool.model}/"),
        f"{pool.ready} of {pool.planned}",
        load + ("*" if pool.load_of == "minute" else ""),
        f"{pool.capacity_units_per_s:.3g}",
        "" if pool.used is None else f"{pool.used:.0%}",
        "" if pool.unit is None else pool.unit.plural,
        "\n".join(f"{count} {config}" for config, count in sorted(pool.nodes.items())),
    )


def _said(pool: "Pool") -> list[str]:
    """Lines on what is planned for between two plans, the same for all pools of an app."""
    from control.cli.time_text import utc

    lines, of = [], f"{pool.fleet}, {pool.model}"
    if (held := pool.override) is not None:
        rate = f"{held.requests_per_s:.4g} requests/s are planned for until {held.expires_at:%Y-%m-%d %H:%M} UTC"
        lines.append(f"{of}: {rate}, set by {held.made_by}: {held.reason}")
    if (past := pool.last_burst) is not None:
        lines.append(f"{pool.fleet}, last burst, {utc(past.at)}: {past.text}")
    return lines
