"""How many nodes of each kind a plan may use, and how many it does."""

from dataclasses import dataclass, replace

from control.planner.market import held_nodes
from templates_lib.offer import Offer
from templates_lib.plan import Plan
from templates_lib.snapshot import Snapshot

ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class NodeSupply:
    """Nodes of one offer."""

    offer: Offer
    used: int
    most: int
    """Those held, and those that can be had beside them."""
    has_quota: bool
    """Whether quotas that it shares with others have room for one more node."""

    @property
    def used_up(self) -> bool:
        return self.used >= self.most > 0

    @property
    def has_room(self) -> bool:
        return self.used < self.most and self.has_quota

    @property
    def name(self) -> str:
        """For people: `L40S:1/n10 in aws/us-east-2 (g6e.xlarge, on-demand)`."""
        o = self.offer
        return f"{o.node_config} in {o.zone_id} ({o.instance_type}, {o.market.value})"


def node_supplies(plan: Plan, snapshot: Snapshot) -> tuple[NodeSupply, ...]:
    """Of every offer, by key."""
    used = {o.offer: o.nodes for o in plan.offers}
    held = held_nodes(snapshot)
    left = [(p.limit - sum(w * used.get(key, 0) for key, w in p.members.items()), p.members) for p in snapshot.pools]
    return tuple(
        NodeSupply(
            offer=o,
            used=used.get(o.key, 0),
            most=held[o.key] + more_nodes(o, snapshot),
            has_quota=all(room >= members.get(o.key, 0.0) - ROUNDING for room, members in left),
        )
        for o in sorted(snapshot.offers, key=lambda o: o.key)
    )


def more_nodes(offer: Offer, snapshot: Snapshot) -> int:
    """Nodes that can be had beside those held: `max_unproven_nodes` where nobody knows."""
    known = offer.available_count
    return snapshot.settings.guardrails.max_unproven_nodes if known is None else known


def with_more(snapshot: Snapshot, offer: str, nodes: int) -> Snapshot:
    """The same market with `nodes` more of an offer, and the quota for them. It has no version: nobody saw it."""
    offers = tuple(
        replace(o, available_count=more_nodes(o, snapshot) + nodes) if o.key == offer else o for o in snapshot.offers
    )
    pools = tuple(
        replace(p, limit=p.limit + nodes * p.members[offer]) if offer in p.members else p for p in snapshot.pools
    )
    return replace(snapshot, version="", offers=offers, pools=pools)


def fits(plan: Plan, snapshot: Snapshot) -> bool:
    """Whether the market of `snapshot` gives the nodes of `plan`."""
    within = all(s.used <= s.most for s in node_supplies(plan, snapshot))
    taken = {o.offer: o.nodes for o in plan.offers}
    return within and all(
        sum(weight * taken.get(key, 0) for key, weight in p.members.items()) <= p.limit + ROUNDING
        for p in snapshot.pools
    )
