"""Prices of GCP's machines: its price list sells cores, memory, GPUs and local disks apart, each by region.

Parts are known by their description only. Left out are those of commitments, reservations, sole tenancy, custom shapes
and of flexible or queued starts, which are up to half cheaper and not what a launch gets.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from templates_lib.values.offer import Market

HOURS_PER_MONTH = 730.0
_NOT_PLAIN = re.compile(
    r"commit|reserv|sole tenancy|custom|premium|calendar|dws|defined duration|flex|queued|upgrade|suspend|confidential",
    re.IGNORECASE,
)
_MARKETS = {"OnDemand": Market.ON_DEMAND, "Preemptible": Market.SPOT}
_HOST = re.compile(r"(?:spot preemptible )?(?P<series>[a-z0-9 ]+?) instance (?P<what>core|ram)\b", re.IGNORECASE)
_GPU = re.compile(r"nvidia (?:tesla )?(?P<gpu>.+?)(?: gpu\b| \(1 gpu slice\))", re.IGNORECASE)
_DISK = re.compile(r"ssd backed local storage\b", re.IGNORECASE)

_SERIES = {
    "a3-megagpu": ("a3plus", "a3mega", "a3"),
    "a3-ultragpu": ("a3ultra",),
    "a3-highgpu": ("a3",),
    "a2-highgpu": ("a2",),
    "a2-ultragpu": ("a2",),
    "a4-highgpu": ("a4",),
    "g2-standard": ("g2",),
}
"""Machines → what their cores are called, the likeliest first."""
_GPUS = {
    "A100-40": ("a100",),
    "A100-80": ("a10080gb",),
    "H100": ("h10080gb",),
    "H200": ("h200141gb", "h200"),
    "B200": ("b200",),
    "L4": ("l4",),
}
_MEGA_GPUS = ("h10080gbplus", "h10080gbmega", "h100mega80gb")


class Part(Enum):
    CORE = auto()
    """$ per core and hour."""
    RAM = auto()
    """$ per GiB and hour."""
    GPU = auto()
    DISK = auto()
    """$ per GiB and hour, of local disks that come with the machine."""


_UNITS = {Part.CORE: "h", Part.RAM: "GiBy.h", Part.GPU: "h", Part.DISK: "GiBy.mo"}


@dataclass(frozen=True, slots=True)
class Shape:
    """A machine as a zone sells it."""

    machine: str
    gpu: str
    gpu_count: int
    cores: int
    memory_gib: float
    local_disk_gib: int


@dataclass(frozen=True, slots=True)
class PriceBook:
    """(part, its kind, region, market) → $ per unit and hour. A kind is its name in small letters without blanks."""

    prices: dict[tuple[Part, str, str, Market], float]

    def usd_per_hour(self, shape: Shape, region: str, market: Market) -> float | None:
        """Return the price of a machine, $/h; None when some part of it has no price in the region."""
        family = shape.machine.rpartition("-")[0]
        series = _SERIES.get(family, ())
        gpus = _MEGA_GPUS if family == "a3-megagpu" else _GPUS.get(shape.gpu, ())
        parts = (
            (Part.CORE, series, shape.cores),
            (Part.RAM, series, shape.memory_gib),
            (Part.GPU, gpus, shape.gpu_count),
            (Part.DISK, ("",), shape.local_disk_gib),
        )
        total = 0.0
        for part, kinds, amount in parts:
            if amount == 0:
                continue
            known = (self.prices.get((part, kind, region, market)) for kind in kinds)
            price = next((price for price in known if price is not None), None)
            if price is None:
                return None
            total += price * amount
        return round(total, 6)


def price_book(skus: Iterable[Any]) -> PriceBook:
    """Make the book of the billing catalogue's SKUs (`google.cloud.billing_v1.Sku`). Two prices for one part: the
    dearer one counts."""
    prices: dict[tuple[Part, str, str, Market], float] = {}
    for sku in skus:
        about = sku.category
        market = _MARKETS.get(about.usage_type)
        if market is None or _NOT_PLAIN.search(sku.description):
            continue
        part = _part(about.resource_family, about.resource_group, sku.description)
        price = None if part is None else _hourly(sku, part[0])
        if part is None or price is None:
            continue
        for region in sku.service_regions:
            key = (*part, region, market)
            prices[key] = max(price, prices.get(key, 0.0))
    return PriceBook(prices)


def _part(family: str, group: str, description: str) -> tuple[Part, str] | None:
    if family == "Storage":
        return (Part.DISK, "") if _DISK.match(description) else None
    if family != "Compute":
        return None
    if group == "GPU" or _GPU.match(description):
        found = _GPU.match(description)
        return None if found is None else (Part.GPU, _plain(found["gpu"]))
    found = _HOST.match(description)
    if found is None:
        return None
    return Part.CORE if found["what"].lower() == "core" else Part.RAM, _plain(found["series"])


def _plain(name: str) -> str:
    return name.lower().replace(" ", "")


def _hourly(sku: Any, part: Part) -> float | None:
    """The newest price, of its dearest tier: the first may be a free allowance."""
    if not sku.pricing_info:
        return None
    expression = sku.pricing_info[-1].pricing_expression
    if expression.usage_unit != _UNITS[part]:
        return None
    tiers = [rate.unit_price for rate in expression.tiered_rates if rate.unit_price.currency_code in ("USD", "")]
    price = max((tier.units + tier.nanos / 1e9 for tier in tiers), default=0.0)
    if not (math.isfinite(price) and price > 0):
        return None
    return price / HOURS_PER_MONTH if part is Part.DISK else price
