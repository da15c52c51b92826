"""Savings by one more node of a kind."""

from collections.abc import Iterator
from dataclasses import dataclass

from control.explain.node_supply import NodeSupply, node_supplies, with_more
from templates_lib.ports.solve import Solve
from templates_lib.values.library import Library
from templates_lib.values.plan import Plan
from templates_lib.values.snapshot import Snapshot

VERIFIED = 3
"""Kinds whose saving is found by a re-solve; more would make people wait."""
NOTHING = 1e-6


@dataclass(frozen=True, slots=True)
class NodeSaving:
    offer: str
    name: str
    used: int
    most: int
    verified: bool
    """True for a saving from a re-solve with one more node and the quota for it; otherwise it comes from duals, hence
    about."""
    usd_per_hour: float
    """Rent and traffic. Of a dual: initialisation included, at the demand that the plan serves."""
    init_usd: float
    requests_per_s: float
    """Unmet demand that the node would serve."""

    @property
    def helps(self) -> bool:
        return self.requests_per_s > NOTHING or abs(self.usd_per_hour) > NOTHING


def node_savings(
    plan: Plan, snapshot: Snapshot, library: Library, solve: Solve, first: tuple[str, ...] = ()
) -> Iterator[NodeSaving]:
    """Yield the saving of every kind that the plan or the relaxation uses up, or whose quota it does; the `VERIFIED`
    most promising ones re-solved.

    `first` are offers to look at before all others, whether they are used up or not.
    """
    for place, supply in enumerate(_kinds(plan, snapshot, first)):
        verify = place < VERIFIED
        yield _resolved(plan, snapshot, library, solve, supply) if verify else _estimated(plan, snapshot, supply)


def node_estimates(plan: Plan, snapshot: Snapshot) -> Iterator[NodeSaving]:
    """Yield the savings of the same kinds from duals alone: at once, and all of them about."""
    for supply in _kinds(plan, snapshot, ()):
        yield _estimated(plan, snapshot, supply)


def _kinds(plan: Plan, snapshot: Snapshot, first: tuple[str, ...]) -> list[NodeSupply]:
    kinds = [s for s in node_supplies(plan, snapshot) if _worth_asking(plan, s, first)]
    return sorted(kinds, key=lambda s: (s.offer.key not in first, -_about(plan, snapshot, s), s.offer.key))


def _estimated(plan: Plan, snapshot: Snapshot, supply: NodeSupply) -> NodeSaving:
    about = _about(plan, snapshot, supply)
    return NodeSaving(supply.offer.key, supply.name, supply.used, supply.most, False, about, 0.0, 0.0)


def _worth_asking(plan: Plan, supply: NodeSupply, first: tuple[str, ...]) -> bool:
    barred = supply.used_up or (supply.used > 0 and not supply.has_quota)
    # Of a kind that is left over no node is missing, whatever the quota for one would save: that is said of the quota.
    return barred or supply.offer.key in first or plan.duals.get(f"offer/{supply.offer.key}", 0.0) < 0


def _about(plan: Plan, snapshot: Snapshot, supply: NodeSupply) -> float:
    """$/h that the relaxation says: the price of the node's own limit and of its share of quotas."""
    key = supply.offer.key
    quotas = (plan.duals.get(f"pool/{p.id}", 0.0) * p.members.get(key, 0.0) for p in snapshot.pools)
    return -plan.duals.get(f"offer/{key}", 0.0) - sum(quotas)


def _resolved(plan: Plan, snapshot: Snapshot, library: Library, solve: Solve, supply: NodeSupply) -> NodeSaving:
    better = solve(with_more(snapshot, supply.offer.key, 1), library)
    nothing = NodeSaving(supply.offer.key, supply.name, supply.used, supply.most, True, 0.0, 0.0, 0.0)
    # A plan that fits the market as it is was found by luck of the search: the node did not do it. Nor did it what the
    # search finds of the same templates without the node, within the gap of `plan`.
    if snapshot.gives(better.nodes()):
        return nothing
    templates = {i.template_id for each in (plan, better) for i in each.instances}
    before = _better(plan, solve(snapshot, library.of(templates)))
    served = _unmet(before) - _unmet(better)
    if served <= NOTHING and before.objective - better.objective <= NOTHING:
        return nothing
    usd, init = before.usd_per_hour - better.usd_per_hour, before.init_usd - better.init_usd
    return NodeSaving(supply.offer.key, supply.name, supply.used, supply.most, True, usd, init, max(served, 0.0))


def _better(one: Plan, other: Plan) -> Plan:
    """Return the plan that serves more, or as much for less."""
    more = _unmet(one) - _unmet(other)
    if abs(more) > NOTHING:
        return other if more > 0 else one
    return other if other.objective < one.objective else one


def _unmet(plan: Plan) -> float:
    return sum(plan.unmet.values())
