"""The cheapest plan with shared units: over all of them where they are few, else over those that prices ask for and the
neighbours of the best plan so far. With a bound that holds for all units there could be."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from policies.shared_units.generation import UnitMarket, generate_units, neighbours
from templates_lib.ports.solve import Solve
from templates_lib.units.enumeration import EnumeratedUnit, enumerated_units
from templates_lib.units.unit_capacity import ServedMember
from templates_lib.units.unit_library import unit_library
from templates_lib.values.library import Library
from templates_lib.values.plan import Plan
from templates_lib.values.snapshot import Snapshot

FEW_UNITS = 5_000
"""All units are planned with where there are no more."""
MOST_ROUNDS = 10
BETTER = 1e-6


@dataclass(frozen=True, slots=True)
class UnitPlan:
    plan: Plan
    library: Library
    """What the plan was made of."""
    bound: float
    """No plan costs less, of whatever units."""
    are_all: bool
    """All units that there are were planned with."""

    @property
    def gap(self) -> float:
        """How far the plan may be above the cheapest one, as a share of its cost."""
        return max(0.0, 1.0 - self.bound / self.plan.objective) if self.plan.objective > 0 else 0.0


def plan_units(
    snapshot: Snapshot, members: Mapping[str, ServedMember], market: UnitMarket, solve: Solve, *, few: int = FEW_UNITS
) -> UnitPlan:
    """Plan with units of `members` (by name). `market` is what `snapshot`, which names no library, sells and asks for.

    Where all units are there (no more than `few`) the planner's bound holds; else that of the prices, which counts the
    rent of nodes alone.
    """
    nodes = list({sold.node.id: sold.node for sold in market.sold}.values())
    listed = enumerated_units(market.uses, nodes, market.gpus, most_units=few)
    if listed.are_all:
        library = unit_library(members, listed.units, snapshot.cost_model_fingerprint)
        plan = solve(snapshot, library)
        return UnitPlan(plan, library, plan.bound, are_all=True)
    generated = generate_units(market)
    units = _joined(listed.units, generated.units)
    best: UnitPlan | None = None
    for _ in range(MOST_ROUNDS):
        library = unit_library(members, list(units.values()), snapshot.cost_model_fingerprint)
        plan = solve(snapshot, library, known=() if best is None else (best.plan,))
        if best is not None and not _is_better(plan, best.plan):
            break
        best = UnitPlan(plan, library, generated.bound, are_all=False)
        by_id = {library.template_id(i): unit for i, unit in enumerate(units.values())}
        more = _joined(units.values(), neighbours(market, [by_id[each.template_id] for each in plan.instances]))
        if len(more) == len(units):
            break
        units = more
    if best is None:
        raise AssertionError("the first round always has a plan")
    return best


def _is_better(plan: Plan, than: Plan) -> bool:
    if sum(plan.unmet.values()) < sum(than.unmet.values()) - BETTER:
        return True
    return plan.objective < than.objective * (1 - BETTER)


def _joined(*parts: Iterable[EnumeratedUnit]) -> dict[tuple[str, tuple[str, ...]], EnumeratedUnit]:
    return {(unit.node.id, unit.members): unit for part in parts for unit in part}
