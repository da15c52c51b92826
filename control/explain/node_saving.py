"""What one more node of a kind would save."""

from collections.abc import Iterator
from dataclasses import dataclass

from control.explain.node_supply import NodeSupply, fits, node_supplies, with_more
from templates_lib.library import Library
from templates_lib.plan import Plan
from templates_lib.snapshot import Snapshot
from templates_lib.solve import Solve

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
    """From a re-solve with one more node and the quota for it; otherwise from duals, hence about."""
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
    """Of every kind that the plan or the relaxation uses up, or the quota of; the `VERIFIED` most promising ones
    re-solved.

    `first` are offers to look at before all others, whether they are used up or not.
    """
    kinds = [s for s in node_supplies(plan, snapshot) if _worth_asking(plan, snapshot, s, first)]
    kinds.sort(key=lambda s: (s.offer.key not in first, -_about(plan, snapshot, s), s.offer.key))
    for place, supply in enumerate(kinds):
        if place < VERIFIED:
            yield _resolved(plan, snapshot, library, solve, supply)
        else:
            about = _about(plan, snapshot, supply)
            yield NodeSaving(supply.offer.key, supply.name, supply.used, supply.most, False, about, 0.0, 0.0)


def _worth_asking(plan: Plan, snapshot: Snapshot, supply: NodeSupply, first: tuple[str, ...]) -> bool:
    barred = supply.used_up or (supply.used > 0 and not supply.has_quota)
    return barred or supply.offer.key in first or _about(plan, snapshot, supply) > 0


def _about(plan: Plan, snapshot: Snapshot, supply: NodeSupply) -> float:
    """$/h that the relaxation says: the price of the node's own limit and of its share of quotas."""
    key = supply.offer.key
    quotas = (plan.duals.get(f"pool/{p.id}", 0.0) * p.members.get(key, 0.0) for p in snapshot.pools)
    return -plan.duals.get(f"offer/{key}", 0.0) - sum(quotas)


def _resolved(plan: Plan, snapshot: Snapshot, library: Library, solve: Solve, supply: NodeSupply) -> NodeSaving:
    better = solve(with_more(snapshot, supply.offer.key, 1), library)
    served = sum(plan.unmet.values()) - sum(better.unmet.values())
    cheaper = plan.objective - better.objective
    # A plan that fits the market as it is was found by luck of the search: the node did not do it.
    if fits(better, snapshot) or (served <= NOTHING and cheaper <= NOTHING):
        return NodeSaving(supply.offer.key, supply.name, supply.used, supply.most, True, 0.0, 0.0, 0.0)
    usd, init = plan.usd_per_hour - better.usd_per_hour, plan.init_usd - better.init_usd
    return NodeSaving(supply.offer.key, supply.name, supply.used, supply.most, True, usd, init, max(served, 0.0))
