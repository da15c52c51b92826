"""Pools as a plan has them: for each work class its members, the nodes these are on, and what they are to do."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from templates_lib.apps.app import serving_id
from templates_lib.apps.served_model import UNIT_OF_PHASE
from templates_lib.values.plan import Plan
from templates_lib.values.settings import Settings
from templates_lib.values.snapshot import Snapshot
from templates_lib.values.work import Unit, WorkClass


@dataclass(frozen=True, slots=True)
class PlannedPool:
    """Of one work class. By default one that the plan in force has no member of."""

    unit: Unit | None
    """None: its library is gone, and the class is none of text."""
    members: int = 0
    nodes: Mapping[str, int] = field(default_factory=dict)
    """Node configuration → how many, of all its members; one that several pools share counts in each."""
    capacity_units_per_s: float = 0.0
    """That the plan may have all members do: their certified capacity times the share of it that may be used."""
    units_of_request: Mapping[str, float] = field(default_factory=dict)
    """Units of a mean request, by the name that gateways count requests under; of those that visit the pool."""


def planned_pools(plan: Plan, snapshot: Snapshot, classes: Iterable[WorkClass]) -> dict[str, PlannedPool]:
    """Return the pools that the plan has members of, by work class. `snapshot`: that it was made on; `classes`: of its
    library, as far as they are known."""
    members = usable_units_per_s(plan, snapshot.settings)
    nodes: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for planned in plan.instances:
        for name in planned.units_per_s:
            nodes[name].update({config: planned.count * number for config, number in planned.nodes.items()})
    asked: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for route in snapshot.routes:
        for leg in route.legs:
            asked[leg.work_class].setdefault(serving_id(route.app, route.request_type), leg.units_per_request)
    units = {each.id: each.unit for each in classes}
    return {
        name: PlannedPool(
            units.get(name) or unit_of_text(name), len(usable), dict(nodes[name]), sum(usable), asked[name]
        )
        for name, usable in members.items()
    }


def usable_units_per_s(plan: Plan, settings: Settings) -> dict[str, list[float]]:
    """Return for each work class what the plan may have each of its members do: their certified capacity times the
    share of it that may be used. `settings`: those that the plan was made with."""
    members: defaultdict[str, list[float]] = defaultdict(list)
    for planned in plan.instances:
        for name, units_per_s in planned.units_per_s.items():
            cap = settings.cap(name, planned.template_id, planned.nodes)
            members[name] += planned.count * [cap * units_per_s]
    return dict(members)


def unit_of_text(work_class: str) -> Unit | None:
    """Return the unit of a class of text; None of others."""
    return next((unit for phase, unit in UNIT_OF_PHASE.items() if work_class.endswith(f"/{phase}")), None)
