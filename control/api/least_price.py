"""Least cost of a bill of nodes, all of it in one zone."""

from collections.abc import Iterable, Mapping

from templates_lib.values.offer import Market, Offer

Prices = Mapping[str, Mapping[str, float]]
"""Zone → node configuration → dollars per hour of its cheapest offer that can be had for good."""


def least_prices(offers: Iterable[Offer]) -> Prices:
    prices: dict[str, dict[str, float]] = {}
    for offer in offers:
        if offer.market is not Market.SPOT and offer.available_count != 0:
            zone = prices.setdefault(offer.zone_id, {})
            zone[offer.node_config] = min(offer.usd_per_hour, zone.get(offer.node_config, offer.usd_per_hour))
    return prices


def least_usd_per_hour(nodes: Mapping[str, int], prices: Prices) -> float | None:
    """Return what the nodes cost in the cheapest zone that sells all of them, $/h; None when no zone does."""
    costs = [
        sum(count * zone[config] for config, count in nodes.items())
        for zone in prices.values()
        if nodes.keys() <= zone.keys()
    ]
    return min(costs, default=None)
