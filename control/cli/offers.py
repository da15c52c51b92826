"""`medley offers`: what the market sells."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from control.cli.guard import guarded
from control.cli.output import Output, OutputOption, console, emit, say

if TYPE_CHECKING:
    from control.offers.quotes import Quotes

app = typer.Typer(name="offers", help="Inspect prices and availability.", no_args_is_help=True)


@app.command("list")
@guarded
def list_(
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="Only what this spec file plans with.", metavar="SPEC")
    ] = None,
    cloud: Annotated[str | None, typer.Option(help="Only this cloud.")] = None,
    region: Annotated[str | None, typer.Option(help="Only this region (needs --cloud).")] = None,
    gpu: Annotated[str | None, typer.Option(help="Only this GPU.")] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """List offers by GPU, the cheapest first.

    Of a spec file, with its own offers and its availability, or of the dated prices that ship with Medley.
    """
    quotes = _quotes(file, cloud, region, gpu)
    per_gpu = {o.key: o.usd_per_hour / quotes.configs[o.node_config].gpu_count for o in quotes.offers}
    offers = sorted(quotes.offers, key=lambda o: (quotes.configs[o.node_config].gpu, per_gpu[o.key], o.key))
    for held_back in quotes.quarantined:
        say(f"medley: left out {held_back.offer.key}: {held_back.reason}")
    if output is not Output.TABLE:
        emit(offers, output)
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name in ("configuration", "zone", "machine", "market", "$/h", "$/GPU/h", "available", "seen", "source"):
        table.add_column(name, justify="right" if name in ("$/h", "$/GPU/h", "available") else "left")
    for offer in offers:
        known = "?" if offer.available_count is None else str(offer.available_count)
        table.add_row(
            offer.node_config, offer.zone_id, offer.instance_type, offer.market.value, f"{offer.usd_per_hour:.2f}",
            f"{per_gpu[offer.key]:.2f}", known, offer.observed_at, f"{'derived; ' * offer.derived}{offer.source}",
        )  # fmt: skip
    console().print(table)
    for note in quotes.notes:
        say(f"Note: {note}")


def _quotes(file: Path | None, cloud: str | None, region: str | None, gpu: str | None) -> "Quotes":
    from control.offers.prices import regions_by_cloud
    from control.offers.selection import Selection
    from control.offers.shipped import ShippedOffers
    from control.planning.world import read_world
    from templates_lib.offer import Market

    if region is not None and cloud is None:
        raise ValueError("--region needs --cloud")
    if file is not None:
        if cloud or gpu:
            raise ValueError("give either -f SPEC or --cloud, --region and --gpu")
        return read_world(file).quotes
    markets = (Market.ON_DEMAND, Market.SPOT)
    regions, gpus = (region,) if region else None, (gpu,) if gpu else None
    clouds = (cloud,) if cloud else sorted(regions_by_cloud())
    return ShippedOffers([Selection(c, regions, gpus, None, markets) for c in clouds]).fetch()
