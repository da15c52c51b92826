"""Nodes that instances take of a supply."""

from collections.abc import Iterable

from control.diff.running import Running
from control.diff.supply import Ledger, Supply


def what_is_left(supply: Supply, running: Iterable[Running]) -> Ledger:
    """Return the supply without the nodes that exist."""
    ledger = Ledger(supply)
    for each in running:
        for node in each.instance.nodes:
            ledger.hold(node.offer)
    return ledger


def rest_of(each: Running, ledger: Ledger) -> dict[str, int]:
    """Takes what the instance will still rent, as far as there is room for it, by offer."""
    if not each.missing_nodes:
        return {}
    held = [ledger.config_of(node.offer) for node in each.instance.nodes]
    lacks = {config: count - held.count(config) for config, count in each.nodes.items()}
    return ledger.reserve(lacks, each.instance.zone, each.instance.market)
