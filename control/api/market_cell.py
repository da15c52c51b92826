"""The market in short: what a node configuration costs at least in a region, and whether it can be had."""

from collections.abc import Iterable
from datetime import datetime

from pydantic import BaseModel, Field

from control.api.offer_book import Listed
from policies.availability import success_estimate
from templates_lib.values.offer import Market, Offer


class MarketCell(BaseModel):
    cloud: str
    region: str
    node_config: str
    gpu: str
    gpu_count: int
    market: Market
    offers: int = Field(description="Number of offers, which differ in zone and machine.")
    usd_per_hour: float = Field(description="Price of the cheapest of them.")
    usd_per_gpu_hour: float
    available_count: int | None = Field(description="Nodes of all of them; null: not known of one at least.")
    success_share: float | None = Field(description="Highest of those that were asked for; null: none was.")


def success_share(offer: Offer, listed: Listed, now: datetime) -> float | None:
    """Chance that the next node of it is given, 0 to 1; None: it was not asked for."""
    known = listed.learned.get(offer.key)
    return None if known is None else success_estimate(known, now)


def market_cells(offers: Iterable[Offer], listed: Listed, now: datetime) -> list[MarketCell]:
    """Cells by cloud, region, configuration and market."""
    groups: dict[tuple[str, str, str, Market], list[Offer]] = {}
    for offer in offers:
        groups.setdefault((offer.cloud, offer.region, offer.node_config, offer.market), []).append(offer)
    return [_cell(groups[key], listed, now) for key in sorted(groups)]


def _cell(offers: list[Offer], listed: Listed, now: datetime) -> MarketCell:
    first, least = offers[0], min(offer.usd_per_hour for offer in offers)
    config = listed.configs[first.node_config]
    counts = [offer.available_count for offer in offers]
    shares = [share for offer in offers if (share := success_share(offer, listed, now)) is not None]
    return MarketCell(
        cloud=first.cloud, region=first.region, node_config=first.node_config, gpu=config.gpu,
        gpu_count=config.gpu_count, market=first.market, offers=len(offers), usd_per_hour=least,
        usd_per_gpu_hour=least / config.gpu_count,
        available_count=None if None in counts else sum(count or 0 for count in counts),
        success_share=max(shares, default=None),
    )  # fmt: skip
