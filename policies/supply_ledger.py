"""Supply left to rent while a heuristic takes nodes one by one."""

from collections import Counter
from dataclasses import dataclass

from templates_lib.values.offer import Market, Offer
from templates_lib.values.snapshot import Snapshot

Place = tuple[str, str, Market]
"""(node configuration, zone id, market)"""


@dataclass(slots=True)
class _PoolLeft:
    left: float
    members: dict[str, float]


class SupplyLedger:
    """Offers of each place, cheapest first, and what their own bounds and the pools leave. Private to one run."""

    def __init__(self, snapshot: Snapshot) -> None:
        held = snapshot.held_nodes()
        self._left: dict[str, int] = {}
        self._offers: dict[Place, list[Offer]] = {}
        for offer in sorted(snapshot.offers, key=lambda o: (o.usd_per_hour, o.key)):
            self._left[offer.key] = snapshot.more_nodes(offer) + held[offer.key]
            self._offers.setdefault((offer.node_config, offer.zone_id, offer.market), []).append(offer)
        self._pools = [_PoolLeft(pool.limit, pool.members) for pool in snapshot.pools]
        self.taken: Counter[str] = Counter()
        """Nodes taken, by offer key."""

    def obtainable(self, place: Place) -> int:
        """Nodes that could be taken at `place` if its offers shared no pool (an upper bound when they do)."""
        return sum(self.obtainable_of(offer.key) for offer in self._offers.get(place, ()))

    def take(self, place: Place, nodes: int) -> int:
        """Take up to `nodes` nodes, cheapest offers first; returns how many could be had."""
        missing = nodes
        for offer in self._offers.get(place, ()):
            count = min(missing, self.obtainable_of(offer.key))
            missing -= count
            self._left[offer.key] -= count
            self.taken[offer.key] += count
            for pool in self._pools:
                pool.left -= count * pool.members.get(offer.key, 0.0)
        return nodes - missing

    def obtainable_of(self, key: str) -> int:
        """Nodes of one offer that its own bound and each pool allow now."""
        left = self._left[key]
        for pool in self._pools:
            weight = pool.members.get(key, 0.0)
            if weight > 0:
                left = min(left, int(pool.left / weight + 1e-9))
        return max(left, 0)
