"""Sizes that nobody sells, for set-ups that name them (the Coral paper's). Never used unless asked for.

A derived offer is linear per GPU in everything (price, network, host memory) from the nearest size that the same zone
sells in the same market, is named `derived-<GPU>x<count>` and marked `derived`.
"""

import math
from collections.abc import Iterable
from dataclasses import replace

from control.offers.quotes import Quotes
from templates_lib.values.hardware import weaker
from templates_lib.values.node_config import NodeConfig, config_id
from templates_lib.values.offer import Market, Offer


def derive(quotes: Quotes, cloud: str, gpus: Iterable[str], counts: Iterable[int]) -> Quotes:
    """`quotes` with every size of `counts` that a zone of `cloud` lacks although it sells that GPU in another size."""
    wanted_gpus, wanted_counts = frozenset(gpus), tuple(sorted(set(counts)))
    sold: dict[tuple[str, Market, str], dict[int, Offer]] = {}
    for offer in quotes.offers:
        config = quotes.configs[offer.node_config]
        if offer.cloud == cloud and config.gpu in wanted_gpus and not offer.derived:
            sizes = sold.setdefault((offer.zone_id, offer.market, config.gpu), {})
            cheapest = sizes.get(config.gpu_count)
            if cheapest is None or offer.usd_per_hour < cheapest.usd_per_hour:
                sizes[config.gpu_count] = offer
    offers, configs = list(quotes.offers), dict(quotes.configs)
    known = {offer.key for offer in offers}
    for (_, _, gpu), sizes in sorted(sold.items()):
        for count in wanted_counts:
            if count not in sizes:
                nearest = sizes[min(sizes, key=lambda size: (abs(math.log2(size / count)), size))]
                offer, config = _scaled(nearest, quotes.configs[nearest.node_config], gpu, count)
                if offer.key in known:
                    continue
                offers.append(offer)
                configs[config.id] = weaker(configs.get(config.id, config), config)
    return replace(quotes, offers=tuple(offers), configs=configs)


def _scaled(offer: Offer, config: NodeConfig, gpu: str, count: int) -> tuple[Offer, NodeConfig]:
    share = count / config.gpu_count
    network, memory = config.network_gbps * share, config.host_memory_gib * share
    made = NodeConfig(config_id(gpu, count, network), gpu, count, config.intra_node_gbps, network, memory)
    derived = replace(
        offer,
        instance_type=f"derived-{gpu}x{count}",
        node_config=made.id,
        usd_per_hour=offer.usd_per_hour * share,
        available_count=None,
        source=f"{offer.source}, per GPU from {offer.instance_type}",
        derived=True,
    )
    return derived, made
