"""Offers of a market: prices and availability, never a shape."""

from dataclasses import dataclass
from enum import StrEnum


class Market(StrEnum):
    ON_DEMAND = "on-demand"
    SPOT = "spot"
    RESERVED = "reserved"
    OWNED = "owned"
    """Sunk: price 0 up to a count."""


def zone_id(cloud: str, zone: str) -> str:
    """The name of a zone everywhere in Medley. A cloud without zones passes its region."""
    return f"{cloud}/{zone}"


@dataclass(frozen=True, slots=True)
class Offer:
    """One instance type in one zone and market, priced for the whole machine."""

    cloud: str
    region: str
    zone: str
    """Zone name inside the cloud; equal to `region` where the cloud names none."""
    instance_type: str
    node_config: str
    market: Market
    usd_per_hour: float
    available_count: int | None = None
    """Nodes that could be had beyond those held; None: unknown (the planner bounds it)."""
    observed_at: str = ""
    """ISO 8601."""
    interruptions_per_hour: float = 0.0
    source: str = ""
    derived: bool = False
    """The size is not sold; the price is scaled per GPU from the nearest size that is."""

    @property
    def zone_id(self) -> str:
        return zone_id(self.cloud, self.zone)

    @property
    def key(self) -> str:
        return f"{self.cloud}/{self.zone}/{self.instance_type}/{self.market.value}"


@dataclass(frozen=True, slots=True)
class QuarantinedOffer:
    """An offer that is kept out of planning because its price cannot be right."""

    offer: Offer
    reason: str
