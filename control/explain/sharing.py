"""What shared units of a plan save, and what keeps models alone that might share."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from templates_lib.ports.solve import Solve
from templates_lib.values.library import Library
from templates_lib.values.plan import Plan
from templates_lib.values.snapshot import Snapshot

TRIED = 3
"""Models that the plan spends most on whose sharing is priced by a re-solve."""


@dataclass(frozen=True, slots=True)
class KeptAlone:
    """A model that might share, and has nodes of its own."""

    model: str
    fits: bool
    """It fits a node beside some other model of the fleet."""
    more_usd_per_hour: float | None
    """Dollars an hour more than the plan that the cheapest plan costs in which all of it shares; None: not asked, or
    there is none that serves as much."""


@dataclass(frozen=True, slots=True)
class SharingExplained:
    members: tuple[tuple[str, ...], ...]
    """Of each kind of shared unit in the plan."""
    without_usd_per_hour: float
    """The cheapest plan without any."""
    saves_usd_per_hour: float
    without_unmet_requests_per_s: float
    """Demand that it leaves unserved beyond what the plan does."""
    alone: tuple[KeptAlone, ...]


def sharing_explained(plan: Plan, snapshot: Snapshot, library: Library, solve: Solve) -> SharingExplained | None:
    """Re-solve without units, and without the own instances of up to `TRIED` models that are alone; None where no
    template of the library is a unit of limits."""
    is_unit = np.isin(library.ids, np.array([name.encode() for name in library.limits], dtype=library.ids.dtype))
    if not is_unit.any():
        return None
    without = solve(snapshot, library.select(~is_unit))
    shared = [tuple(m.rpartition("/")[0] for m in i.units_per_s) for i in plan.instances if len(i.units_per_s) > 1]
    return SharingExplained(
        tuple(dict.fromkeys(shared)),
        without.usd_per_hour,
        without.usd_per_hour - plan.usd_per_hour,
        _more_unmet(without, plan),
        tuple(_alone(plan, snapshot, library, solve, is_unit)),
    )


def _alone(
    plan: Plan, snapshot: Snapshot, library: Library, solve: Solve, is_unit: NDArray[np.bool_]
) -> Iterator[KeptAlone]:
    """Models of which the library has a work class, and no template that does it, would be members if they fitted."""
    sets, of_template = library.component_sets()
    in_units = {name for k in set(of_template[is_unit].tolist()) for name in sets[k]}
    served = set(library.entry_class.tolist())
    may = in_units | {each.component for number, each in enumerate(library.classes) if number not in served}
    cost: dict[str, float] = {}
    for instance in plan.instances:
        if instance.model in may:
            cost[instance.model] = cost.get(instance.model, 0.0) + instance.usd_per_hour
    asked = 0
    for model in sorted(cost, key=lambda name: (-cost[name], name)):
        more = None
        if model in in_units and asked < TRIED:
            asked += 1
            own = of_template == sets.index((model,))
            other = solve(snapshot, library.select(~own))
            more = None if _more_unmet(other, plan) > 0 else other.usd_per_hour - plan.usd_per_hour
        yield KeptAlone(model, model in in_units, more)


def _more_unmet(other: Plan, plan: Plan) -> float:
    return max(0.0, sum(other.unmet.values()) - sum(plan.unmet.values()))
