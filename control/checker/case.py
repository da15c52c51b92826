"""A plan beside the snapshot it was made on, indexed for checking."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from control.checker.claims import Claim
from templates_lib.values.offer import Market, Offer
from templates_lib.values.plan import Plan, PlannedOffer
from templates_lib.values.snapshot import Snapshot
from templates_lib.values.stored_weights import StoredWeights
from templates_lib.values.work import Route

RETURNING = frozenset({"draining", "terminating", "terminated", "failed"})
"""States of instances that a plan may not count on; their nodes are on their way back to the cloud."""

Cell = tuple[str, str, Market]
"""(node configuration, zone id, market): nodes that are alike to an instance."""


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    plan: Plan
    snapshot: Snapshot
    claims: Mapping[str, Claim] | None
    checkpoints: Mapping[str, StoredWeights]
    """Model id → what it was planned from, as far as it is known."""
    offers: Mapping[str, Offer]
    routes: Mapping[str, Route]
    running: Counter[tuple[str, str, Market]]
    """Instances that run, by (template id, zone, market)."""
    held: Counter[str]
    """Nodes that running instances hold, by offer key."""
    sold: Mapping[Cell, tuple[Offer, ...]]
    """Offers of a cell that could give a node at all."""
    used: Mapping[Cell, tuple[PlannedOffer, ...]]
    """Offers of a cell that the plan draws on."""


def case_of(
    plan: Plan,
    snapshot: Snapshot,
    claims: Mapping[str, Claim] | None,
    checkpoints: Mapping[str, StoredWeights] = MappingProxyType({}),
) -> Case:
    alive = [i for i in snapshot.instances if i.state not in RETURNING]
    offers = {o.key: o for o in snapshot.offers}
    held = Counter(node.offer for i in alive for node in i.nodes)
    sold: defaultdict[Cell, list[Offer]] = defaultdict(list)
    for offer in snapshot.offers:
        if offer.available_count != 0 or held[offer.key]:
            sold[offer.node_config, offer.zone_id, offer.market].append(offer)
    used: defaultdict[Cell, list[PlannedOffer]] = defaultdict(list)
    for planned in plan.offers:
        known = offers.get(planned.offer)
        if known is not None and planned.nodes:
            used[known.node_config, known.zone_id, known.market].append(planned)
    return Case(
        plan=plan,
        snapshot=snapshot,
        claims=claims,
        checkpoints=checkpoints,
        offers=offers,
        routes={r.id: r for r in snapshot.routes},
        running=Counter((i.template_id, i.zone, i.market) for i in alive),
        held=held,
        sold={cell: tuple(o) for cell, o in sold.items()},
        used={cell: tuple(o) for cell, o in used.items()},
    )
