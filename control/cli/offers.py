"""`medley offers`: what the market sells."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from control.cli import market
from control.cli.acting import opened
from control.cli.guard import Commands
from control.cli.options import DatabaseOption
from control.cli.output import Output, OutputOption, console, emitted, say, table
from control.cli.time_text import OLD, age
from templates_lib.values.offer import Market

if TYPE_CHECKING:
    from control.market.view import StoredMarket
    from control.offers.quotes import Quotes
    from templates_lib.values.offer import Offer

_ROWS = 5
"""Of each GPU: the market has thousands, and the cheapest are looked for."""

app = Commands(name="offers", help="Ask clouds for prices and availability, and inspect them.", no_args_is_help=True)
app.command("refresh")(market.refresh)
app.command("history")(market.history)
app.command("calls")(market.calls)
app.command("accept")(market.accept)
app.command("forget")(market.forget)


@app.command("list")
def list_(
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="Only what this spec file plans with.", metavar="SPEC")
    ] = None,
    cloud: Annotated[str | None, typer.Option(help="Only this cloud.")] = None,
    region: Annotated[str | None, typer.Option(help="Only this region (needs --cloud).")] = None,
    gpu: Annotated[str | None, typer.Option(help="Only this GPU.")] = None,
    market: Annotated[Market | None, typer.Option(help="Only this market.")] = None,
    max_price: Annotated[float | None, typer.Option(min=0, help="At most so many $ an hour for a GPU.")] = None,
    limit: Annotated[
        int, typer.Option(min=0, help="Rows of the table for each GPU, the cheapest; 0: all. Other outputs have all.")
    ] = _ROWS,
    output: OutputOption = Output.TABLE,
    database_url: DatabaseOption = None,
) -> None:
    """List offers by GPU, the cheapest first: live ones of clouds that were asked, else the dated ones that ship.

    With -f the offers that the spec file may use, with its own offers and availability. Offers that were refused
    lately, are left out or have an impossible price are named, with the reason.
    """
    from control.market.view import StoredMarket

    now = datetime.now(UTC)
    with opened(database_url) as database:
        stored = StoredMarket.read(database, now)
    quotes = _quotes(stored, file, cloud, region, gpu)
    per_gpu = {o.key: o.usd_per_hour / quotes.configs[o.node_config].gpu_count for o in quotes.offers}
    fits = (
        o
        for o in quotes.offers
        if (market is None or o.market is market) and (max_price is None or per_gpu[o.key] <= max_price)
    )
    offers = sorted(fits, key=lambda o: (quotes.configs[o.node_config].gpu, per_gpu[o.key], o.key))
    for held_back in quotes.quarantined:
        say(f"medley: left out {held_back.offer.key}: {held_back.reason}")
    if emitted(offers, output):
        return
    right = ("$/h", "$/GPU/h", "available", "age")
    rows, of_gpu = [], Counter[str]()
    for offer in offers:
        of_gpu[quotes.configs[offer.node_config].gpu] += 1
        if not limit or of_gpu[quotes.configs[offer.node_config].gpu] <= limit:
            rows.append(offer)
    shown = table("configuration", "zone", "machine", "market", *right, "source", right=right)
    for offer in rows:
        known = "?" if offer.available_count is None else str(offer.available_count)
        shown.add_row(
            offer.node_config, offer.zone_id, offer.instance_type, offer.market.value, f"{offer.usd_per_hour:.2f}",
            f"{per_gpu[offer.key]:.2f}", known, _age(offer, stored), f"{'derived; ' * offer.derived}{offer.source}",
        )  # fmt: skip
    console().print(shown)
    if len(rows) < len(offers):
        say(f"medley: {len(rows):,} of {len(offers):,} offers, the cheapest of each GPU; --limit 0 shows all")
    if old := sum(_passed(offer, stored) > OLD for offer in offers):
        say(f"medley: {old:,} prices are over {OLD.days} days old; `medley offers refresh` asks the clouds for today's")
    for note in quotes.notes:
        say(f"Note: {note}")


def _age(offer: "Offer", stored: "StoredMarket") -> str:
    """Time since a source last confirmed the price; red where nobody should call it today's."""
    passed = _passed(offer, stored)
    text = f"of {offer.observed_at or '?'}" if passed == timedelta.max else age(passed)
    return f"[red]{text}[/red]" if passed > OLD else text


def _passed(offer: "Offer", stored: "StoredMarket") -> timedelta:
    """The same; the longest there is where only a year is known."""
    live = stored.clouds.get(offer.cloud)
    if live is not None and live.succeeded_at is not None and offer.source.startswith(live.source):
        return stored.now - live.succeeded_at
    try:
        seen = datetime.fromisoformat(offer.observed_at)
    except ValueError:
        return timedelta.max
    return max(timedelta(0), stored.now - (seen if seen.tzinfo else seen.replace(tzinfo=UTC)))


def _quotes(
    stored: "StoredMarket", file: Path | None, cloud: str | None, region: str | None, gpu: str | None
) -> "Quotes":
    from control.offers.prices import regions_by_cloud
    from control.offers.selection import Selection
    from control.planning.world import read_world
    from templates_lib.values.settings import Settings

    if region is not None and cloud is None:
        raise ValueError("--region needs --cloud")
    if file is not None:
        if cloud or gpu:
            raise ValueError("give either -f SPEC or --cloud, --region and --gpu")
        return read_world(file, stored).quotes
    markets = (Market.ON_DEMAND, Market.SPOT)
    regions, gpus = (region,) if region else None, (gpu,) if gpu else None
    clouds = (cloud,) if cloud else sorted(regions_by_cloud())
    sold = stored.offers([Selection(c, regions, gpus, None, markets) for c in clouds])
    return stored.judged(sold, Settings().guardrails.max_unproven_nodes)
