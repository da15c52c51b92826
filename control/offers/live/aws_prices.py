"""Prices on demand of AWS, from its price list: one page of products after the other, each a JSON text."""

import json
from collections.abc import Iterable
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
