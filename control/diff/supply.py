"""Supply of a market, and what is left of it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from templates_lib.values.offer import Market, Offer
from templates_lib.values.supply import SupplyPool

Cell = tuple[str, str, Market]
"""(node configuration, zone id, market)"""
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Supply:
    offers: tuple[Offer, ...]
    most: Mapping[str, int]
    """Offer key → nodes of it that may be held at once, those that are held included."""
    pools: tuple[SupplyPool, ...] = ()


def supply_of(
    offers: Iterable[Offer], pools: Iterable[SupplyPool], held: Mapping[str, int], max_unproven_nodes: int
) -> Supply:
    """Return the supply of a market. `held`: nodes by offer key when the offers were observed, to which their counts
    come on top; an offer whose count is unknown gives `max_unproven_nodes` more."""
    sold = tuple(offers)
    more = {o.key: max_unproven_nodes if o.available_count is None else o.available_count for o in sold}
    return Supply(sold, {key: held.get(key, 0) + count for key, count in more.items()}, tuple(pools))


class Ledger:
    """Supply that is left while nodes are taken and given back. Private to one decision."""

    def __init__(self, supply: Supply) -> None:
        self._left = dict(supply.most)
        self._pool_left = [pool.limit for pool in supply.pools]
        self._pools: dict[str, list[tuple[int, float]]] = {}
        for at, pool in enumerate(supply.pools):
            for key, weight in pool.members.items():
                if weight > 0:
                    self._pools.setdefault(key, []).append((at, weight))
        self._cells: dict[Cell, list[str]] = {}
        for offer in sorted(supply.offers, key=lambda o: (o.usd_per_hour, o.key)):
            self._cells.setdefault((offer.node_config, offer.zone_id, offer.market), []).append(offer.key)
        self._config = {offer.key: offer.node_config for offer in supply.offers}

    def copy(self) -> "Ledger":
        new = object.__new__(Ledger)
        new._left, new._pool_left = dict(self._left), list(self._pool_left)
        new._pools, new._cells, new._config = self._pools, self._cells, self._config
        return new

    def config_of(self, offer: str) -> str | None:
        """Return the node configuration of an offer; None for one that is not sold any more."""
        return self._config.get(offer)

    def hold(self, offer: str, nodes: int = 1) -> None:
        """Count nodes that exist, whether there is room for them or not; a negative number gives them back."""
        if offer in self._left:
            self._left[offer] -= nodes
        for at, weight in self._pools.get(offer, ()):
            self._pool_left[at] -= weight * nodes

    def reserve(self, nodes: Mapping[str, int], zone: str, market: Market) -> dict[str, int]:
        """Reserve as many of the nodes as there is room for, the cheapest offers first; return them by offer."""
        taken: dict[str, int] = {}
        for config, count in nodes.items():
            missing = count
            for offer in self._cells.get((config, zone, market), ()):
                had = min(missing, self._room(offer))
                if had > 0:
                    self.hold(offer, had)
                    taken[offer] = had
                    missing -= had
        return taken

    def take(self, nodes: Mapping[str, int], zone: str, market: Market) -> dict[str, int] | None:
        """All the nodes by offer, or None, and nothing taken, where there is no room for all."""
        taken = self.reserve(nodes, zone, market)
        if sum(taken.values()) == sum(nodes.values()):
            return taken
        for offer, count in taken.items():
            self.hold(offer, -count)
        return None

    def rivals(self, nodes: Mapping[str, int], zone: str, market: Market) -> frozenset[str]:
        """Offers whose nodes take room from these: their own, and those that share a pool with them."""
        own = {offer for config in nodes for offer in self._cells.get((config, zone, market), ())}
        pools = {at for offer in own for at, _ in self._pools.get(offer, ())}
        return frozenset(own | {o for o, shares in self._pools.items() if any(at in pools for at, _ in shares)})

    def _room(self, offer: str) -> int:
        room = self._left[offer]
        for at, weight in self._pools.get(offer, ()):
            room = min(room, int(self._pool_left[at] / weight + _ROUNDING))
        return max(room, 0)
