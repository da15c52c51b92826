"""Prices of bytes that move between zones: egress at the source plus ingress at the target."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from control.offers.prices import data_rows, zones_by_region
from templates_lib.values.traffic import TrafficPrice


@dataclass(frozen=True, slots=True)
class _Region:
    cloud: str
    name: str
    continent: str
    zone_egress: float
    zone_ingress: float
    internet_egress: float


def traffic_prices(zones: Iterable[str]) -> tuple[TrafficPrice, ...]:
    """A price for every ordered pair of different `zones` (zone ids such as `aws/use2-az1`) whose clouds are known.

    Between zones of a region: what each end charges (AWS $0.01 out and $0.01 in). Between regions of a cloud: the
    source's charge; where none is known, its internet egress, which is never less. Between clouds: the source's
    internet egress of the first paid tier (ingress from outside is free everywhere). A zone of an unknown cloud gets no
    price, hence no crossing.
    """
    known = {zone: region for zone in sorted(set(zones)) if (region := _region_of(zone)) is not None}
    return tuple(
        TrafficPrice(source, target, round(_usd_per_gb(a, b), 6))
        for source, a in known.items()
        for target, b in known.items()
        if source != target
    )


def _usd_per_gb(a: _Region, b: _Region) -> float:
    if a.cloud != b.cloud:
        return a.internet_egress
    if a.name == b.name:
        return a.zone_egress + b.zone_ingress
    table = _between_regions()
    for key in ((a.name, b.name), (a.name, "*"), (a.continent, b.continent), (a.continent, "*")):
        price = table.get((a.cloud, *key))
        if price is not None:
            return price
    return a.internet_egress


def _region_of(zone_id: str) -> _Region | None:
    """The region of a zone; a region that is a zone of its own is named by itself."""
    cloud, _, zone = zone_id.partition("/")
    return _regions().get((cloud, _region_names().get((cloud, zone), zone)))


@cache
def _region_names() -> dict[tuple[str, str], str]:
    return {(cloud, zone): region for (cloud, region), zones in zones_by_region().items() for zone in zones}


@cache
def _regions() -> dict[tuple[str, str], _Region]:
    return {
        (row["cloud"], row["region"]): _Region(
            row["cloud"],
            row["region"],
            row["continent"],
            float(row["zone_egress_usd_per_gb"]),
            float(row["zone_ingress_usd_per_gb"]),
            float(row["internet_egress_usd_per_gb"]),
        )
        for row in data_rows("traffic_zones.csv")
    }


@cache
def _between_regions() -> dict[tuple[str, str, str], float]:
    return {(r["cloud"], r["from"], r["to"]): float(r["usd_per_gb"]) for r in data_rows("traffic_regions.csv")}
