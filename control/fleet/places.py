"""Places where the nodes of an instance may be rented."""

from collections.abc import Iterable

from control.diff.target import Target
from control.executor.node_start import NodeStart
from control.executor.provision import NodePlace
from control.hub.gang import Gang
from templates_lib.values.offer import Offer


def places(wanted: Target, gang: Gang, offers: Iterable[Offer], start: NodeStart) -> list[NodePlace]:
    """One for each node of the gang, with the offers of its configuration in the instance's zone, cheapest first."""
    sold = [offer for offer in offers if (offer.zone_id, offer.market) == (wanted.zone, wanted.market)]
    sold.sort(key=lambda offer: (offer.usd_per_hour, offer.key))
    return [NodePlace(tuple(offer for offer in sold if offer.node_config == config), start) for config in gang.configs]
