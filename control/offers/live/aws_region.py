"""Zones, machines and prices of one region of AWS. Clients are boto3's."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from control.offers.live.bounds import bounded

_FILTERS = {"operatingSystem": "Linux", "tenancy": "Shared", "preInstalledSw": "NA", "capacitystatus": "Used"}
"""Filters for the plain one of all the ways to pay for a machine."""


def on_demand_prices(pricing: Any, region: str, machines: Iterable[str]) -> dict[str, float]:
    """Machine → $/h of Linux on shared hardware, without anything installed or reserved."""
    wanted = frozenset(machines)
    asked = [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in _FILTERS.items()]
    asked.append({"Type": "TERM_MATCH", "Field": "regionCode", "Value": region})
    pages = pricing.get_paginator("get_products").paginate(
        ServiceCode="AmazonEC2", Filters=asked, PaginationConfig={"PageSize": 100}
    )
    found: dict[str, float] = {}
    for page in bounded(pages, "on-demand prices"):
        for text in page["PriceList"]:
            product = json.loads(text)
            about = product["product"]["attributes"]
            # The filters are asked for again: a list that ignores one would price the wrong thing.
            plain = all(about.get(field, value) == value for field, value in _FILTERS.items())
            if about.get("instanceType") not in wanted or not plain or about.get("regionCode", region) != region:
                continue
            if about.get("marketoption", "OnDemand") != "OnDemand":
                continue
            for price in _hourly(product):
                # Two prices for one thing: the dearer one, so that no plan is too cheap to be true.
                found[about["instanceType"]] = max(price, found.get(about["instanceType"], 0.0))
    return found


def _hourly(product: dict[str, Any]) -> Iterable[float]:
    for term in product.get("terms", {}).get("OnDemand", {}).values():
        for dimension in term["priceDimensions"].values():
            price = float(dimension["pricePerUnit"].get("USD", 0))
            if dimension["unit"] == "Hrs" and price > 0:
                yield price


Zone = str
"""Identifier of a zone, such as `use2-az1`: the same place in every account, unlike its name."""


def zones_of(ec2: Any) -> dict[str, Zone]:
    """Zone name → id, of the zones of the region itself that are open."""
    told = ec2.describe_availability_zones()["AvailabilityZones"]
    plain = (z for z in told if z.get("ZoneType", "availability-zone") == "availability-zone")
    return {z["ZoneName"]: z["ZoneId"] for z in plain if z.get("State", "available") == "available"}


def offered_zones(ec2: Any, machines: Sequence[str]) -> dict[str, set[Zone]]:
    """Machine → zones that sell it."""
    pages = ec2.get_paginator("describe_instance_type_offerings").paginate(
        LocationType="availability-zone-id",
        Filters=[{"Name": "instance-type", "Values": list(machines)}],
        PaginationConfig={"PageSize": 1000},
    )
    found: dict[str, set[Zone]] = {}
    for page in bounded(pages, "offerings"):
        for each in page["InstanceTypeOfferings"]:
            found.setdefault(each["InstanceType"], set()).add(each["Location"])
    return found


def spot_prices(
    ec2: Any, machines: Sequence[str], zones: Mapping[str, Zone], now: datetime
) -> dict[tuple[str, Zone], tuple[float, str]]:
    """(machine, zone) → ($/h, since when, ISO 8601). A history that begins now has the price that holds now."""
    pages = ec2.get_paginator("describe_spot_price_history").paginate(
        StartTime=now,
        InstanceTypes=list(machines),
        ProductDescriptions=["Linux/UNIX", "Linux/UNIX (Amazon VPC)"],
        PaginationConfig={"PageSize": 1000},
    )
    newest: dict[tuple[str, Zone], tuple[float, str]] = {}
    for page in bounded(pages, "spot prices"):
        for each in page["SpotPriceHistory"]:
            zone = zones.get(each["AvailabilityZone"])
            if zone is None:
                continue
            key, since = (each["InstanceType"], zone), each["Timestamp"].isoformat()
            if key not in newest or since > newest[key][1]:
                newest[key] = float(each["SpotPrice"]), since
    return newest
