"""Numbers of nodes of each kind that a plan may use, and does use."""

from dataclasses import dataclass, replace

from templates_lib.values.offer import Offer
from templates_lib.values.plan import Plan
from templates_lib.values.snapshot import Snapshot
from templates_lib.values.supply import ROUNDING


@dataclass(frozen=True, slots=True)
class NodeSupply:
    """Nodes of one offer."""

    offer: Offer
    used: int
    most: int
    """Those held, and those that can be had beside them."""
    has_quota: bool
    """True where quotas that it shares with others have room for one more node."""

    @property
    def used_up(self) -> bool:
        return self.used >= self.most > 0

    @property
    def has_room(self) -> bool:
        return self.used < self.most and self.has_quota

    @property
    def name(self) -> str:
        """Name it for people: `L40S:1/n10 in aws/us-east-2 (g6e.xlarge, on-demand)`."""
        o = self.offer
        return f"{o.node_config} in {o.zone_id} ({o.instance_type}, {o.market.value})"


def node_supplies(plan: Plan, snapshot: Snapshot) -> tuple[NodeSupply, ...]:
    """Return the supply of every offer, by key."""
    used = plan.nodes()
    held = snapshot.held_nodes()
    left = [(p.limit - p.taken(used), p.members) for p in snapshot.pools]
    return tuple(
        NodeSupply(
            offer=o,
            used=used[o.key],
            most=held[o.key] + snapshot.more_nodes(o),
            has_quota=all(room >= members.get(o.key, 0.0) - ROUNDING for room, members in left),
        )
        for o in sorted(snapshot.offers, key=lambda o: o.key)
    )


def with_more(snapshot: Snapshot, offer: str, nodes: int) -> Snapshot:
    """The same market with `nodes` more of an offer, and the quota for them. It has no version: nobody saw it."""
    offers = tuple(
        replace(o, available_count=snapshot.more_nodes(o) + nodes) if o.key == offer else o for o in snapshot.offers
    )
    pools = tuple(
        replace(p, limit=p.limit + nodes * p.members[offer]) if offer in p.members else p for p in snapshot.pools
    )
    return replace(snapshot, version="", offers=offers, pools=pools)
