"""What each member of a plan's shared units pays of their rent."""

from dataclasses import replace
from fractions import Fraction
from math import inf

import numpy as np
from numpy.typing import NDArray

from control.allocator.market import read_supply
from policies.shared_units.member_rents import in_dollars, split_rent
from templates_lib.values.library import Library
from templates_lib.values.plan import Plan, PlannedInstance
from templates_lib.values.snapshot import Snapshot

_ROUNDING = 1e-9


def with_member_rents(plan: Plan, snapshot: Snapshot, library: Library) -> Plan:
    """Return the plan with what each member pays of its units. `library`: that it was made with."""
    if library.limits.keys().isdisjoint(each.template_id for each in plan.instances):
        return plan
    alone = InstancesAlone(snapshot, library)
    return replace(plan, instances=tuple(_with_rents(each, alone, library) for each in plan.instances))


def _with_rents(instance: PlannedInstance, alone: "InstancesAlone", library: Library) -> PlannedInstance:
    limits = library.limits.get(instance.template_id, ())
    members = [each for each in library.classes if any(each.id in limit for limit in limits)]
    if not members:
        return instance
    rates = [instance.units_per_s.get(each.id, 0.0) for each in members]
    uses = [[limit.get(k.id, 0.0) * rate for limit in limits] for k, rate in zip(members, rates, strict=True)]
    usd = [alone.usd_per_hour(k.id, instance.count * rate) for k, rate in zip(members, rates, strict=True)]
    parts = in_dollars(split_rent(Fraction(instance.usd_per_hour), uses, usd), instance.usd_per_hour)
    paid = {each.component: part for each, part in zip(members, parts, strict=True)}
    return replace(instance, usd_per_hour_by_member=paid)


class InstancesAlone:
    """What requests of one model would cost on whole instances of its own, at the cheapest offers of a snapshot."""

    def __init__(self, snapshot: Snapshot, library: Library) -> None:
        self._snapshot, self._library = snapshot, library
        self._supply = read_supply(snapshot, library.configs)
        self._classes = {each.id: number for number, each in enumerate(library.classes)}
        sets, self._set_of_template = library.component_sets()
        self._sets = {names: number for number, names in enumerate(sets)}
        self._template_of_entry = library.point_template[library.entry_point]

    def usd_per_hour(self, work_class: str, units_per_s: float) -> float:
        """Return rent and disks of the instances that would do so much of a work class, or in other classes what its
        requests need; infinite where none do."""
        component = self._library.classes[self._classes[work_class]].component
        legs = [
            [leg for leg in route.legs if leg.work_class in self._classes and self._is_of(leg.work_class, component)]
            for route in self._snapshot.routes
        ]
        own = [found for found, route in zip(legs, self._snapshot.routes, strict=True) if len(found) == len(route.legs)]
        per_request = [leg.units_per_request for found in own for leg in found if leg.work_class == work_class]
        if not per_request:
            return inf
        requests_per_s = units_per_s / per_request[0]
        return min(
            sum(self._cheapest(component, leg.work_class, requests_per_s * leg.units_per_request) for leg in found)
            for found in own
        )

    def _is_of(self, work_class: str, component: str) -> bool:
        return self._library.classes[self._classes[work_class]].component == component

    def _cheapest(self, component: str, work_class: str, units_per_s: float) -> float:
        """$/h of as many instances of one template as do so much, one at least."""
        library, number = self._library, self._sets.get((component,), -1)
        own = self._set_of_template[self._template_of_entry] == number
        entry = np.flatnonzero(own & (library.entry_class == self._classes[work_class]))
        count = np.ceil(units_per_s / library.entry_units_per_s[entry] - _ROUNDING)
        usd = np.maximum(count, 1.0) * self._rents(component, self._template_of_entry[entry])
        return float(usd.min(initial=inf))

    def _rents(self, component: str, template: NDArray[np.int32]) -> NDArray[np.float64]:
        """(len(template),) $/h of an instance with its disks where it is cheapest; infinite where it cannot be had."""
        library, supply, disks = self._library, self._supply, self._snapshot.charged_disks
        nodes, engine = library.nodes[template].astype(np.float64), library.template_engine[template]
        node_gib = np.array([disks.node_gib((component,), name) for name in library.engines], dtype=np.float64)
        gib = nodes.sum(axis=1) * node_gib[engine]
        least = np.full(len(template), inf)
        for g, (zone, _) in enumerate(supply.groups):
            cloud = zone.partition("/")[0]
            there = np.array([self._snapshot.may_be_at(cloud, component, name) for name in library.engines])
            fits = there[engine] & (nodes <= supply.bound[:, g]).all(axis=1)
            usd = nodes @ supply.price[:, g] + gib * supply.usd_per_gib_hour[g]
            least = np.minimum(least, np.where(fits, usd, inf))
        return least
