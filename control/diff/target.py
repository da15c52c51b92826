"""What a plan wants of each column."""

from collections.abc import Mapping
from dataclasses import dataclass

from templates_lib.values.offer import Market
from templates_lib.values.plan import Plan

Column = tuple[str, str, Market]
"""(template id, zone id, market): what equal instances have in common."""


@dataclass(frozen=True, slots=True)
class Target:
    """`count` instances of one column."""

    plan_id: str
    template_id: str
    zone: str
    market: Market
    count: int
    nodes: Mapping[str, int]
    """Of one instance: node configuration → how many."""
    units_per_s: Mapping[str, float]
    """Of one instance, by work class."""
    usd_per_hour: float
    """Rent of one instance."""

    @property
    def column(self) -> Column:
        return self.template_id, self.zone, self.market


def targets(plan: Plan) -> tuple[Target, ...]:
    """A column each. ValueError for a plan that lists a column twice."""
    found = tuple(
        Target(plan.id, p.template_id, p.zone, p.market, p.count, p.nodes, p.units_per_s, p.usd_per_hour / p.count)
        for p in plan.instances
        if p.count > 0
    )
    if len({t.column for t in found}) < len(found):
        raise ValueError(f"plan {plan.id} lists a template twice in one zone and market")
    return found
