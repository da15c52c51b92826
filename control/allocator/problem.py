"""A snapshot and a library read into everything that the solve works on."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from control.allocator.columns import Columns, Floats, Ints, allowed_groups, restrict
from control.allocator.frame import FrameBuilder, ProgramFrame, RunningColumns
from control.allocator.market import GroupedSupply, read_supply, running_counts
from control.allocator.regions import with_points
from control.allocator.routing import RoutedDemands, read_routing
from templates_lib.values.library import Kind, Library
from templates_lib.values.nearest_name import nearest_name
from templates_lib.values.offer import Market
from templates_lib.values.plan import Plan
from templates_lib.values.settings import Mode
from templates_lib.values.snapshot import Snapshot


@dataclass(frozen=True, slots=True, eq=False)
class AllocationProblem:
    snapshot: Snapshot
    library: Library
    """Library without the templates that nothing demands."""
    supply: GroupedSupply
    routing: RoutedDemands
    columns: Columns
    frame: ProgramFrame

    def keys_of(self, plans: Iterable[Plan]) -> Ints:
        """Return template · G + group of all that these plans rent, as far as it can be rented here, in order."""
        rented = {(each.template_id, each.zone, each.market) for plan in plans for each in plan.instances}
        found = _columns_of(sorted(rented), self.library, self.supply, self.columns.allowed)
        return np.array(sorted({t * len(self.supply.groups) + g for t, g in found.values()}), dtype=np.int64)

    @property
    def group_place(self) -> NDArray[np.integer[Any]]:
        """(G,) the place of every group."""
        if self.snapshot.settings.mode is Mode.PAPER:
            return np.zeros(len(self.supply.groups), dtype=np.int64)
        return self.supply.group_zone


def read_problem(snapshot: Snapshot, library: Library) -> AllocationProblem:
    """Read the problem. Raises ValueError for bad offers and for replica bounds on a class that the library does not
    know."""
    supply = read_supply(snapshot, library.configs)
    class_ids = tuple(c.id for c in library.classes)
    also = _classes_with_a_minimum(snapshot, class_ids)
    wanted = _demanded(snapshot, class_ids) | also
    kinds, of_template = library.kinds()  # before capacity that nobody asks for is left out: nodes hold it
    library, left = restrict(library, tuple(sorted(wanted)))
    of_template = of_template[left]
    allowed = _allowed(snapshot, library, supply, kinds, of_template)
    class_zone = _class_zone(library, allowed, supply)
    routing = read_routing(snapshot, class_ids, supply.zones, class_zone, also)
    library, left = restrict(library, routing.classes)
    of_template, allowed = of_template[left], allowed[left]
    peak = routing.peak
    cap = np.array([snapshot.settings.cap(class_ids[each]) for each in routing.classes])
    usable: Floats = np.where(peak > 0, cap / np.where(peak > 0, peak, 1.0), 0.0)
    share = _usable_share(snapshot, library, routing.classes, usable)
    library, share = with_points(library, share)
    settings, disks = snapshot.settings, snapshot.charged_disks
    node_gib = np.array([disks.node_gib(*kind) for kind in kinds], dtype=np.int64)[of_template]
    more = np.array([settings.init_factor_of(engines) - settings.init_factor for _, engines in kinds])[of_template]
    columns = Columns(library, supply, allowed, routing.classes, share, settings.restart_hours, node_gib, more)
    running = _running(snapshot, library, supply, allowed)
    frame = FrameBuilder(snapshot, supply, routing, columns).build(running)
    return AllocationProblem(snapshot, library, supply, routing, columns, frame)


def _allowed(
    snapshot: Snapshot, library: Library, supply: GroupedSupply, kinds: tuple[Kind, ...], of_template: Ints
) -> NDArray[np.bool_]:
    """(n, G): whether an instance fits what the group sells, and its cloud starts the engine where it has to."""
    clouds = [zone.partition("/")[0] for zone, _ in supply.groups]
    may_be = [
        [all(snapshot.may_be_at(cloud, component, engines) for component in components) for cloud in clouds]
        for components, engines in kinds
    ]
    allowed, there = allowed_groups(library, supply), np.array(may_be, dtype=np.bool_).reshape(len(kinds), len(clouds))
    return allowed if there.all() else allowed & there[of_template]


def _usable_share(snapshot: Snapshot, library: Library, classes: tuple[int, ...], usable: Floats) -> Floats:
    """(entries,) what a unit per second is of the peak load, cap applied. `usable` (K,) is that of templates without a
    cap of their own."""
    place, settings = np.zeros(len(library.classes), np.int64), snapshot.settings
    place[list(classes)] = np.arange(len(classes))
    share: Floats = usable[place[library.entry_class]]
    template = library.point_template[library.entry_point]
    for number, name in ((number, library.classes[number].id) for number in classes):
        for template_id in settings.template_caps.get(name, {}):
            own = (library.ids[template] == template_id.encode()) & (library.entry_class == number)
            share[own] *= settings.cap(name, template_id) / settings.cap(name)
        if margins := settings.margins(name):
            own = library.entry_class == number
            share[own] *= _least_known(library, margins)[template[own]]
    return share


def _least_known(library: Library, margins: Mapping[str, float]) -> Floats:
    """(n,) the least of the factors of a template's node configurations, 1 where none has any."""
    of_config = np.array([margins.get(config, 1.0) for config in library.configs])
    return np.asarray(np.where(library.nodes > 0, of_config, 1.0).min(axis=1, initial=1.0))


def _demanded(snapshot: Snapshot, class_ids: tuple[str, ...]) -> frozenset[int]:
    index = {name: i for i, name in enumerate(class_ids)}
    asked = {(d.app, d.request_type) for d in snapshot.demand if d.requests_per_s > 0}
    legs = (leg for r in snapshot.routes if (r.app, r.request_type) in asked for leg in r.legs)
    return frozenset(index[leg.work_class] for leg in legs if leg.work_class in index)


def _classes_with_a_minimum(snapshot: Snapshot, class_ids: tuple[str, ...]) -> frozenset[int]:
    index = {name: i for i, name in enumerate(class_ids)}
    for name in snapshot.settings.guardrails.replicas:
        if name not in index:
            raise ValueError(
                f"guardrails.replicas names the unknown work class {name!r}; {nearest_name(name, class_ids)}"
            )
    return frozenset(index[name] for name, r in snapshot.settings.guardrails.replicas.items() if r.min > 0)


def _class_zone(library: Library, allowed: NDArray[np.bool_], supply: GroupedSupply) -> NDArray[np.bool_]:
    """(classes of the library, zones): whether some template of the class fits a group of the zone."""
    out = np.zeros((len(library.classes), len(supply.zones)), dtype=bool)
    entry_template = library.point_template[library.entry_point]
    for k in range(len(library.classes)):
        templates = entry_template[library.entry_class == k]
        if len(templates):
            np.logical_or.at(out[k], supply.group_zone, allowed[templates].any(axis=0))
    return out


def _running(snapshot: Snapshot, library: Library, supply: GroupedSupply, allowed: NDArray[np.bool_]) -> RunningColumns:
    counts = running_counts(snapshot)
    found = sorted((t, g, counts[each]) for each, (t, g) in _columns_of(counts, library, supply, allowed).items())
    table = np.array(found, dtype=np.int64).reshape(-1, 3)
    return RunningColumns(table[:, 0], table[:, 1], table[:, 2].astype(np.float64))


def _columns_of(
    instances: Iterable[tuple[str, str, Market]],
    library: Library,
    supply: GroupedSupply,
    allowed: NDArray[np.bool_],
) -> dict[tuple[str, str, Market], tuple[int, int]]:
    """(template id, zone, market) → (template, group), of those that can be rented."""
    instances = list(instances)
    group_index = {group: g for g, group in enumerate(supply.groups)}
    wanted = sorted({name.encode() for name, _, _ in instances})
    at = np.flatnonzero(np.isin(library.ids, np.array(wanted, dtype=library.ids.dtype)))
    template_index = {library.template_id(int(t)): int(t) for t in at}
    found = {
        (name, zone, market): (template_index[name], group_index[zone, market])
        for name, zone, market in instances
        if name in template_index and (zone, market) in group_index
    }
    return {each: place for each, place in found.items() if allowed[place]}
