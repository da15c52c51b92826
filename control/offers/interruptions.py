"""Interruption rates of spot nodes, where somebody publishes them."""

from functools import cache

from control.offers.prices import price_rows
from templates_lib.values.offer import Market


def interruptions_per_hour(cloud: str, region: str, machine: str, market: Market) -> float:
    """Return the rate of a live offer by the shipped classes: of its machine in its region, else the worst of all.

    No programming interface states them: AWS publishes its spot advisor as a web page, the others nothing.
    """
    if market is not Market.SPOT:
        return 0.0
    known = _by_machine()
    return known.get((cloud, region, machine), max(known.values()))


@cache
def _by_machine() -> dict[tuple[str, str, str], float]:
    found: dict[tuple[str, str, str], float] = {}
    for row in price_rows():
        if row.market is Market.SPOT:
            key = row.cloud, row.region, row.instance_type
            found[key] = max(found.get(key, 0.0), row.interruptions_per_hour)
    return found
