"""What turns quoted prices into the shipped snapshot: which quotes are believed, and which of several is kept.

Pure rules without files, so that the tests hold them on rows made by hand. The traps are those that the README of the
price data names.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

ON_DEMAND = "on-demand"
SPOT = "spot"
ALL_ZONES = ""
"""The zone of a quote that holds for a whole region."""
ANYWHERE = "any"
"""The region of a cloud that names one price for everywhere: a product, not a statement about any place."""

FLEX_SHARE = 0.75
"""An on-demand price below this share of the list price is another product (flex-start, DWS: about half)."""

SPOT_ONLY = frozenset({"a3-highgpu-1g", "a3-highgpu-2g", "a3-highgpu-4g"})
"""Machines that Google starts as spot or flex-start only (Compute Engine, accelerator-optimised machine family); their
list price is not an on-demand offer."""

# Spot advisor: share of instances interrupted in a month. The upper end of each class; the last is open, 30 % assumed.
MONTHLY_INTERRUPTION = {"<5%": 0.05, "5-10%": 0.10, "10-15%": 0.15, "15-20%": 0.20, ">20%": 0.30}
HOURS_PER_MONTH = 730


@dataclass(frozen=True, slots=True)
class Quote:
    """A price as one source states it."""

    cloud: str
    region: str
    zone: str
    instance_type: str
    market: str
    usd_per_hour: float
    source: str
    date: str
    """ISO 8601, as exact as the source is (`2026` where only the year is known)."""
    interruptions_per_hour: float = 0.0


def interruptions_per_hour(monthly_class: str) -> float:
    """Hazard rate of an advisor class: −ln(1 − p) / 730 (docs/plans.md). An unknown class counts as the worst."""
    return -math.log1p(-MONTHLY_INTERRUPTION.get(monthly_class, MONTHLY_INTERRUPTION[">20%"])) / HOURS_PER_MONTH


def price(text: str) -> float | None:
    """A price that somebody may pay; None for an empty cell, 0 (unknown, not free) and what is no number."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value > 0 else None


def spot_price(spot: str, on_demand: float) -> float | None:
    """None where spot is not sold: an empty or zero cell, or a price not below on-demand (the pool is exhausted)."""
    value = price(spot)
    return value if value is not None and value < on_demand else None


def whole_gpus(count: str) -> int | None:
    """The number of GPUs, or None for a slice of one (0.125, 0.333 of a card: a vGPU)."""
    value = float(count)
    return int(value) if value >= 1 and value == int(value) else None


def believable_on_demand(totals: dict[str, float], list_prices: dict[str, float]) -> dict[str, float]:
    """Of one machine: region → on-demand price that may be kept, from `totals` where `list_prices` lacks the region.

    A total far below what the list says (its lowest price, or the highest total where the list lacks the machine) is a
    flex product that slipped in and is left out.
    """
    if not totals:
        return dict(list_prices)
    reference = min(list_prices.values()) if list_prices else max(totals.values())
    kept = {region: value for region, value in totals.items() if value >= FLEX_SHARE * reference}
    return kept | list_prices


def merge(quotes: Iterable[Quote]) -> list[Quote]:
    """One quote per (cloud, region, zone, machine, market): the newest, the cheapest of equally new ones.

    Where one source prices the whole region and another its zones, the zones stay and the newer price holds: otherwise
    one machine would be offered twice. Spot that is not below on-demand is dropped.
    """
    best: dict[tuple[str, ...], Quote] = {}
    for quote in quotes:
        key = (quote.cloud, quote.region, quote.zone, quote.instance_type, quote.market)
        known = best.get(key)
        if known is None or (quote.date, -quote.usd_per_hour) > (known.date, -known.usd_per_hour):
            best[key] = quote
    return sorted(_without_dear_spot(_one_granularity(best.values())), key=_order)


def _one_granularity(quotes: Iterable[Quote]) -> list[Quote]:
    groups: dict[tuple[str, ...], list[Quote]] = {}
    for quote in quotes:
        groups.setdefault((quote.cloud, quote.region, quote.instance_type, quote.market), []).append(quote)
    kept: list[Quote] = []
    for group in groups.values():
        whole = [q for q in group if q.zone == ALL_ZONES]
        zones = [q for q in group if q.zone != ALL_ZONES]
        if whole and zones and whole[0].date > max(q.date for q in zones):
            # The newer price is of the whole region, the older source still says in which zones the machine is sold.
            newer = whole[0]
            kept += [replace(q, usd_per_hour=newer.usd_per_hour, source=newer.source, date=newer.date) for q in zones]
        else:
            kept += zones or whole
    return kept


def _without_dear_spot(quotes: list[Quote]) -> list[Quote]:
    """Spot of a whole region must be below on-demand in each of its zones, spot of a zone below what holds there."""
    on_demand: dict[tuple[str, ...], dict[str, float]] = {}
    for q in quotes:
        if q.market == ON_DEMAND:
            on_demand.setdefault((q.cloud, q.region, q.instance_type), {})[q.zone] = q.usd_per_hour

    def dear(q: Quote) -> bool:
        prices = on_demand.get((q.cloud, q.region, q.instance_type), {})
        rivals = [usd for zone, usd in prices.items() if ALL_ZONES in (q.zone, zone) or zone == q.zone]
        return q.usd_per_hour >= min(rivals, default=math.inf)

    return [q for q in quotes if q.market != SPOT or not dear(q)]


def _order(quote: Quote) -> tuple[str, ...]:
    return (quote.cloud, quote.region, quote.instance_type, quote.market, quote.zone)
