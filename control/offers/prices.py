"""The dated snapshot of real prices inside the package (`templates_lib/data/prices`), read as it is."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from templates_lib.values.offer import Market


@dataclass(frozen=True, slots=True)
class PriceRow:
    """A price of one machine in one zone, or in a whole region (`zone` empty: the source names no zones)."""

    cloud: str
    region: str
    zone: str
    instance_type: str
    market: Market
    usd_per_hour: float
    interruptions_per_hour: float
    source: str
    date: str


@cache
def price_rows() -> tuple[PriceRow, ...]:
    return tuple(
        PriceRow(
            cloud=row["cloud"],
            region=row["region"],
            zone=row["zone"],
            instance_type=row["instance_type"],
            market=Market(row["market"]),
            usd_per_hour=float(row["usd_per_hour"]),
            interruptions_per_hour=float(row["interruptions_per_hour"]),
            source=row["source"],
            date=row["date"],
        )
        for row in data_rows("offers.csv")
    )


@cache
def zones_by_region() -> dict[tuple[str, str], tuple[str, ...]]:
    """(cloud, region) → the zones that some price names; a region that is not a key has none that are known."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in data_rows("zones.csv"):
        found.setdefault((row["cloud"], row["region"]), []).append(row["zone"])
    return {key: tuple(zones) for key, zones in found.items()}


def regions_by_cloud() -> dict[str, frozenset[str]]:
    """Cloud → its regions with at least one price. RunPod and Lambda name one price for everywhere: region `any`."""
    found: dict[str, set[str]] = {}
    for row in price_rows():
        found.setdefault(row.cloud, set()).add(row.region)
    return {cloud: frozenset(regions) for cloud, regions in found.items()}


def data_rows(name: str) -> Iterator[dict[str, str]]:
    text = files("templates_lib").joinpath("data", "prices", name).read_text(encoding="utf-8")
    return csv.DictReader(text.splitlines())
