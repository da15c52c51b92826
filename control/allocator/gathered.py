"""The same problem with all zones of a cloud as one place, which bounds what a plan costs.

A program that tells zones apart has each plan in as many forms as zones can be swapped, and a flow for every pair of
zones on every edge of a route. Here a cloud sells in one place what all its zones do together, at their prices, and
data moves free within it: whatever serves the demand costs no more here, so that this bounds every plan.
"""

from collections import defaultdict
from dataclasses import replace

from templates_lib.values.offer import Market, Offer, zone_id
from templates_lib.values.settings import Mode, Survive
from templates_lib.values.snapshot import Snapshot
from templates_lib.values.supply import SupplyPool
from templates_lib.values.traffic import TrafficPrice

ANYWHERE = "anywhere"
Cell = tuple[str, str, Market]
"""(cloud, node configuration, market)"""


def gathered(snapshot: Snapshot) -> Snapshot | None:
    """The snapshot with clouds for zones. None where zones are no places, or more than places: what runs is somewhere,
    and losses and shares are of single zones."""
    settings = snapshot.settings
    is_of_zones = settings.survive is not Survive.NOTHING or settings.guardrails.max_zone_share < 1
    if settings.mode is Mode.PAPER or is_of_zones or snapshot.instances:
        return None
    alike: dict[Offer, list[Offer]] = defaultdict(list)
    of_cell: dict[Cell, list[Offer]] = defaultdict(list)
    for offer in snapshot.offers:
        alike[_anywhere(offer)].append(offer)
        of_cell[_cell(offer)].append(offer)
    # Risk is reckoned by the cheapest type of a configuration, which may be another in a cloud than in a zone of it.
    risk = {cell: min(each.interruptions_per_hour for each in offers) for cell, offers in of_cell.items()}
    return replace(
        snapshot,
        offers=tuple(
            replace(one, available_count=sum(map(snapshot.more_nodes, offers)), interruptions_per_hour=risk[_cell(one)])
            for one, offers in alike.items()
        ),
        pools=tuple(_pool(pool, alike) for pool in snapshot.pools),
        traffic=_traffic(snapshot),
    )


def _cell(offer: Offer) -> Cell:
    return offer.cloud, offer.node_config, offer.market


def _anywhere(offer: Offer) -> Offer:
    """What all offers of a type at a price have in common; its key is its own."""
    name = f"{offer.instance_type} {offer.node_config} at {offer.usd_per_hour!r}"
    return Offer(offer.cloud, ANYWHERE, ANYWHERE, name, offer.node_config, offer.market, offer.usd_per_hour)


def _pool(pool: SupplyPool, alike: dict[Offer, list[Offer]]) -> SupplyPool:
    """A node takes what the least does of those that it may be."""
    least = {one.key: min(pool.members.get(each.key, 0.0) for each in offers) for one, offers in alike.items()}
    return replace(pool, members={key: weight for key, weight in least.items() if weight > 0})


def _traffic(snapshot: Snapshot) -> tuple[TrafficPrice, ...]:
    """Between clouds, the least price between zones of them."""
    cloud = {offer.zone_id: zone_id(offer.cloud, ANYWHERE) for offer in snapshot.offers}
    least: dict[tuple[str, str], float] = {}
    for price in snapshot.traffic:
        ends = cloud.get(price.source, ""), cloud.get(price.target, "")
        if "" not in ends and ends[0] != ends[1]:
            least[ends] = min(price.usd_per_gb, least.get(ends, price.usd_per_gb))
    return tuple(TrafficPrice(*ends, usd) for ends, usd in sorted(least.items()))
