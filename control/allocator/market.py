"""The market as arrays: the offers of a snapshot over cells (node configuration, group).

A group is a (zone, market); an instance takes all its nodes from one group.
"""

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from templates_lib.values.offer import Market, Offer
from templates_lib.values.snapshot import Snapshot

Group = tuple[str, Market]


def running_counts(snapshot: Snapshot) -> Counter[tuple[str, str, Market]]:
    """Count the running instances of each (template id, zone, market)."""
    return Counter((i.template_id, i.zone, i.market) for i in snapshot.staying())


@dataclass(frozen=True, slots=True, eq=False)
class GroupedSupply:
    """G groups selling nodes of C configurations through O offers."""

    configs: tuple[str, ...]
    groups: tuple[Group, ...]
    zones: tuple[str, ...]
    group_zone: NDArray[np.integer[Any]]
    """(G,) index into `zones`."""
    offers: tuple[Offer, ...]
    offer_config: NDArray[np.integer[Any]]
    offer_group: NDArray[np.integer[Any]]
    offer_bound: NDArray[np.float64]
    """(O,) nodes that may be used, held ones included."""
    offer_held: NDArray[np.integer[Any]]
    bound: NDArray[np.float64]
    """(C, G) nodes that all offers of the cell give together."""
    price: NDArray[np.float64]
    """(C, G) $/h of the cheapest offer that gives nodes: what initialisation and spot risk are reckoned with; 0 where
    nothing is sold."""
    interruptions_per_hour: NDArray[np.float64]
    """(C, G) of that cheapest offer; 0 outside the spot market."""
    only_offer: NDArray[np.integer[Any]]
    """(C, G) the offer of a cell that has exactly one, otherwise -1."""
    usd_per_gib_hour: NDArray[np.float64]
    """(G,) $/h of a GiB of disk."""

    @property
    def is_spot(self) -> NDArray[np.bool_]:
        return np.array([market is Market.SPOT for _, market in self.groups], dtype=bool)


def read_supply(snapshot: Snapshot, configs: tuple[str, ...]) -> GroupedSupply:
    """Arrays over the offers whose configuration is one of `configs`.

    An offer gives `available_count` nodes beside those held; where that is unknown, `max_unproven_nodes`.
    ValueError for a price or count that is no finite number ≥ 0, and for two offers of one key.
    """
    _refuse_bad_offers(snapshot.offers)
    held = snapshot.held_nodes()
    config_index = {config: i for i, config in enumerate(configs)}
    offers = tuple(sorted((o for o in snapshot.offers if o.node_config in config_index), key=lambda o: o.key))
    groups = tuple(sorted({(o.zone_id, o.market) for o in offers}))
    zones = tuple(sorted({zone for zone, _ in groups}))
    group_index = {group: g for g, group in enumerate(groups)}
    zone_index = {zone: z for z, zone in enumerate(zones)}
    offer_config = np.array([config_index[o.node_config] for o in offers], dtype=np.int64)
    offer_group = np.array([group_index[o.zone_id, o.market] for o in offers], dtype=np.int64)
    offer_held = np.array([held[o.key] for o in offers], dtype=np.int64)
    more = [snapshot.more_nodes(o) for o in offers]
    offer_bound: NDArray[np.float64] = offer_held.astype(np.float64) + np.array(more, dtype=np.float64)
    shape = (len(configs), len(groups))
    bound, price, risk = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    only = np.full(shape, -1, dtype=np.int64)
    usable = np.flatnonzero(offer_bound > 0)
    # From the dearest to the cheapest, so that the cheapest offer writes last.
    for o in sorted(usable, key=lambda o: (-offers[o].usd_per_hour, -o)):
        cell = offer_config[o], offer_group[o]
        only[cell] = o if bound[cell] == 0 else -1
        bound[cell] += offer_bound[o]
        price[cell] = offers[o].usd_per_hour
        risk[cell] = offers[o].interruptions_per_hour if offers[o].market is Market.SPOT else 0.0
    group_zone = np.array([zone_index[zone] for zone, _ in groups], dtype=np.int64)
    disk = np.array([snapshot.charged_disks.usd_per_gib_hour(zone) for zone, _ in groups], dtype=np.float64)
    return GroupedSupply(
        configs, groups, zones, group_zone, offers, offer_config, offer_group, offer_bound, offer_held,
        bound, price, risk, only, disk,
    )  # fmt: skip


def _refuse_bad_offers(offers: tuple[Offer, ...]) -> None:
    seen: set[str] = set()
    for offer in offers:
        if offer.key in seen:
            raise ValueError(f"offer {offer.key} is listed twice; merge them or name their instance types apart")
        seen.add(offer.key)
        if not (math.isfinite(offer.usd_per_hour) and offer.usd_per_hour >= 0):
            raise ValueError(f"offer {offer.key} has the price {offer.usd_per_hour} $/h; it must be a number ≥ 0")
        if offer.available_count is not None and offer.available_count < 0:
            raise ValueError(f"offer {offer.key} has {offer.available_count} nodes available; it must be ≥ 0")
