"""The market as the Coral paper has it: a region is a zone of its own and sells every GPU in every size once."""

from dataclasses import replace

from control.offers.quotes import Quotes
from templates_lib.values.hardware import weaker
from templates_lib.values.node_config import NodeConfig, config_id
from templates_lib.values.offer import Offer


def merge_zones(quotes: Quotes) -> Quotes:
    """List each machine once per region and market, at the price of its cheapest zone; the zone is named like the
    region."""
    cheapest: dict[str, Offer] = {}
    for offer in quotes.offers:
        merged = replace(offer, zone=offer.region)
        known = cheapest.get(merged.key)
        if known is None or offer.usd_per_hour < known.usd_per_hour:
            cheapest[merged.key] = merged
    return replace(quotes, offers=tuple(cheapest[key] for key in sorted(cheapest)))


def one_machine_per_size(quotes: Quotes) -> Quotes:
    """Keep per zone, market, GPU and count only the cheapest machine; and per GPU and count one configuration
    everywhere.

    That configuration carries the least shape of the machines kept, so that clouds whose machines differ in network
    sell the same configuration. Machines that cannot be joined (class n0) stay apart: they would make all others so.
    """
    cheapest: dict[tuple[str, ...], Offer] = {}
    for offer in quotes.offers:
        config = quotes.configs[offer.node_config]
        key = (offer.zone_id, offer.market.value, *_size(config))
        known = cheapest.get(key)
        if known is None or (offer.usd_per_hour, offer.instance_type) < (known.usd_per_hour, known.instance_type):
            cheapest[key] = offer
    least: dict[tuple[str, ...], NodeConfig] = {}
    for offer in cheapest.values():
        config = quotes.configs[offer.node_config]
        least[_size(config)] = weaker(config, least.get(_size(config), config))
    least = {size: replace(c, id=config_id(c.gpu, c.gpu_count, c.network_gbps)) for size, c in sorted(least.items())}
    offers = [
        replace(offer, node_config=least[_size(quotes.configs[offer.node_config])].id)
        for _, offer in sorted(cheapest.items())
    ]
    return replace(quotes, offers=tuple(offers), configs={c.id: c for c in least.values()})


def _size(config: NodeConfig) -> tuple[str, ...]:
    return (config.gpu, str(config.gpu_count), "joins" if config.joins_others else "alone")
