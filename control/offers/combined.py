"""Several sources as one market."""

from collections.abc import Iterable

from control.offers.quarantine import quarantine
from control.offers.quotes import Quotes
from control.offers.traffic import traffic_prices
from templates_lib.values.hardware import weaker
from templates_lib.values.node_config import NodeConfig
from templates_lib.values.offer import Offer, QuarantinedOffer
from templates_lib.values.supply import SupplyPool
from templates_lib.values.traffic import TrafficPrice


def combined(sources: Iterable[Quotes]) -> Quotes:
    """All quotes together; for the same offer, pool or crossing a later source replaces an earlier one.

    A price that is more than three times off the one it would replace is quarantined and the earlier stays, unless a
    person stated it. Crossings between zones of different sources are priced where their clouds are known.
    """
    listed = tuple(sources)
    offers: dict[str, Offer] = {}
    configs: dict[str, NodeConfig] = {}
    pools: dict[str, SupplyPool] = {}
    traffic: dict[tuple[str, str], TrafficPrice] = {}
    quarantined: list[QuarantinedOffer] = []
    notes: list[str] = []
    for price in traffic_prices(zone for quotes in listed for zone in quotes.zones):
        traffic[price.source, price.target] = price
    for quotes in listed:
        last = {} if quotes.already_checked else {key: offer.usd_per_hour for key, offer in offers.items()}
        good, bad = quarantine(quotes.offers, last)
        offers |= {offer.key: offer for offer in good}
        for config in quotes.configs.values():
            configs[config.id] = weaker(config, configs.get(config.id, config))
        pools |= {pool.id: pool for pool in quotes.pools}
        traffic |= {(price.source, price.target): price for price in quotes.traffic}
        quarantined += [*quotes.quarantined, *bad]
        notes += quotes.notes
    used = {offer.node_config for offer in offers.values()}
    return Quotes(
        tuple(offers.values()),
        {name: config for name, config in sorted(configs.items()) if name in used},
        tuple(pools.values()),
        tuple(traffic.values()),
        tuple(quarantined),
        tuple(dict.fromkeys(notes)),
    )
