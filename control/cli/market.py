"""The commands of `medley offers` that ask clouds, and show their answers."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from control.cli.acting import acting, opened
from control.cli.options import DatabaseOption
from control.cli.output import Output, OutputOption, console, emitted, say, table
from control.cli.time_text import age, at

if TYPE_CHECKING:
    from control.market.refresh import Refreshed

HoursOption = Annotated[float, typer.Option("--hours", min=0.01, help="How far back to look.")]


def refresh(
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="Only the clouds of this spec file.", metavar="SPEC")
    ] = None,
    cloud: Annotated[list[str] | None, typer.Option(help="Only this cloud; may be repeated.")] = None,
    from_skypilot: Annotated[
        bool, typer.Option("--from-skypilot", help="Prices of SkyPilot's catalogue in ~/.sky/catalogs, of all clouds.")
    ] = False,
    output: OutputOption = Output.TABLE,
    database_url: DatabaseOption = None,
) -> None:
    """Ask all clouds at once for what they sell now, and store it.

    AWS, GCP and RunPod are asked directly, with the credentials of their own tools; for the others SkyPilot's
    catalogue is read. A cloud that fails is named with the reason, and its last offers stay; plans leave out
    one whose credentials are missing or expired until they are repaired (or `medley offers forget CLOUD`). Exits with 1
    when none answered.
    """
    from control.market.refresh import refresh as ask
    from control.market.sources import sources_of

    sources = sources_of(_clouds(file, cloud), os.environ, from_skypilot=from_skypilot)
    if not sources:
        raise ValueError("there is no cloud to ask: the spec names only the local one")
    with opened(database_url) as database:
        done = ask(database, sources, datetime.now(UTC))
    if not emitted(done, output):
        _print(done)
    if all(each.failure for each in done):
        raise typer.Exit(1)


def history(
    offer: Annotated[str, typer.Argument(help="Key of an offer: CLOUD/ZONE/MACHINE/MARKET.")],
    hours: HoursOption = 24 * 7,
    output: OutputOption = Output.TABLE,
    database_url: DatabaseOption = None,
) -> None:
    """Show the price history of an offer."""
    from control.db.live_offers import PostgresOffers

    with opened(database_url) as database:
        points = PostgresOffers(database).history(offer, datetime.now(UTC) - timedelta(hours=hours))
    if emitted(points, output):
        return
    if not points:
        typer.echo(f"No price of {offer} is recorded: `medley offers list` shows the parts of keys.")
    for point in points:
        price = "not sold" if point.usd_per_hour is None else f"{point.usd_per_hour:.4f} $/h"
        typer.echo(f"{at(point.observed_at)}  {price:>14}  {point.source}")


def calls(hours: HoursOption = 24, output: OutputOption = Output.TABLE, database_url: DatabaseOption = None) -> None:
    """Show how often clouds were asked for nodes, offer by offer, and which offers are avoided since."""
    from control.db.market_memory import PostgresMarketMemory
    from control.market.call_report import call_report

    now = datetime.now(UTC)
    with opened(database_url) as database:
        stored = PostgresMarketMemory(database)
        report = call_report(stored.calls(now - timedelta(hours=hours)), stored.read(), now)
    if emitted(report, output):
        return
    if not report:
        typer.echo("No cloud was asked for a node in that time.")
        return
    right = ("calls", "given", "most/min", "estimate")
    shown = table("what", *right, "last answer", "avoided for", "why", right=right)
    for line in report:
        avoided = "" if line.avoided_until is None else age(line.avoided_until - now)
        shown.add_row(
            line.subject, str(line.calls), str(line.granted), str(line.most_in_a_minute),
            f"{line.success_estimate:.0%}", line.outcome.value, avoided, line.reason,
        )  # fmt: skip
    console().print(shown)


def accept(
    offer: Annotated[str, typer.Argument(help="Key of an offer whose price is in quarantine.")],
    database_url: DatabaseOption = None,
) -> None:
    """Accept a price that was quarantined: plans use it from now on."""
    from control.actions.accept_price import accept_price

    with acting(database_url) as act:
        found = accept_price(act, offer)
    typer.echo(f"Price of {offer} accepted: {found.usd_per_hour:g} $/h.")


def forget(
    cloud: Annotated[str, typer.Argument(help="Name of the cloud.")], database_url: DatabaseOption = None
) -> None:
    """Drop a cloud's live offers, and the reason why plans leave it out: the dated ones that ship are used again."""
    from control.db.live_offers import PostgresOffers

    with opened(database_url) as database:
        if not PostgresOffers(database).forget(cloud):
            raise ValueError(f"{cloud!r} has no live offer")
    typer.echo(f"Live offers of {cloud} dropped: plans use those that ship with Medley.")


def _clouds(file: Path | None, cloud: list[str] | None) -> tuple[str, ...]:
    from control.market.sources import askable_clouds, known_clouds
    from control.planning.world import read_world
    from templates_lib.values.nearest_name import nearest_name

    if file is not None and cloud:
        raise ValueError("give either -f SPEC or --cloud")
    if file is not None:
        return tuple(each.cloud for each in read_world(file).fleet.sources.selections)
    known = known_clouds()
    for name in cloud or ():
        if name not in known:
            raise ValueError(f"unknown cloud {name!r}; {nearest_name(name, known)}")
    return tuple(cloud) if cloud else askable_clouds(os.environ)


def _print(done: "tuple[Refreshed, ...]") -> None:
    for each in done:
        if each.failure:
            what = "left out" if each.is_left_out else "no answer"
            typer.echo(f"{each.cloud}: {what} ({each.source}): {each.failure}")
        else:
            typer.echo(f"{each.cloud}: {each.offers} offers ({each.source})")
        for aside in each.quarantined:
            say(f"medley: left out {aside.offer.key}: {aside.reason}; if it is right: medley offers accept KEY")
        for note in each.notes:
            say(f"Note: {note}")
