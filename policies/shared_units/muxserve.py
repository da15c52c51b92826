"""MuxServe's placement as a baseline of plans: Algorithm 1 on GPUs of one type, each model in one place.

Models are placed one after the other, what needs most computation first, onto the node where they add most to what is
served; where they add less than all that is asked of them, onto a node of their own. That is done for nodes of each
configuration on offer, as the paper's cluster has one type of GPU, and what serves most for least is taken. The planner
then rents these units, and models that are alone as it likes: it has no other choice which models share.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from templates_lib.ports.solve import Solve
from templates_lib.values.library import Library
from templates_lib.values.plan import Plan
from templates_lib.values.snapshot import Snapshot
from templates_lib.values.template import Limit

ALL = 1 - 1e-9
"""Share of what is asked of a model with which it counts as served."""


@dataclass(frozen=True, slots=True)
class _Unit:
    template: str
    limits: tuple[Limit, ...]

    def room(self, load: Mapping[str, float], work_class: str) -> float:
        """Units per second of a class that it does beside `load`, of its other classes."""
        rooms = (
            (1.0 - sum(limit[name] * rate for name, rate in load.items())) / limit[work_class]
            for limit in self.limits
            if limit[work_class] > 0
        )
        return max(0.0, min(rooms))


Units = Mapping[frozenset[str], _Unit]
"""Work classes of its members → a unit on some configuration."""


@dataclass(frozen=True, slots=True)
class _Placement:
    nodes: tuple[Mapping[str, float], ...]
    """Load of each node: work class → units per second."""
    usd_per_hour: float


def plan_muxserve(snapshot: Snapshot, library: Library, solve: Solve) -> Plan:
    """Plan with the units that Algorithm 1 chooses; with none where the library has none."""
    by_config, prices = _units(library), _prices(snapshot)
    load = _load(snapshot, {name for units in by_config.values() for members in units for name in members})
    found = [
        (_placed(load, by_config[config], prices[config]), by_config[config])
        for config in library.configs
        if config in by_config and config in prices
    ]
    placed, units = min(found, key=lambda each: each[0].usd_per_hour, default=(_Placement((), 0.0), {}))
    shared = [frozenset(node) for node in placed.nodes if len(node) > 1]
    chosen = {units[members].template.encode() for members in shared}
    keep = np.array([name in chosen for name in library.ids.tolist()])
    is_unit = np.isin(library.ids, np.array([name.encode() for name in library.limits], dtype=library.ids.dtype))
    placed_together = {name for members in shared for name in members}
    together = {each.component for each in library.classes if each.id in placed_together}
    of_shared = np.array([each.component in together for each in library.classes])
    has_shared = np.zeros(library.size, dtype=bool)
    has_shared[library.point_template[library.entry_point[of_shared[library.entry_class]]]] = True
    return solve(snapshot, library.select(keep | ~(is_unit | has_shared)), policy="muxserve")


def _units(library: Library) -> dict[str, dict[frozenset[str], _Unit]]:
    """Configuration → its units, of the templates of one node with limits."""
    found: dict[str, dict[frozenset[str], _Unit]] = {}
    for number, name in enumerate(name.decode() for name in library.ids.tolist()):
        limits = library.limits.get(name)
        if limits and library.nodes[number].sum() == 1:
            config = library.configs[int(library.nodes[number].argmax())]
            found.setdefault(config, {})[frozenset(limits[0])] = _Unit(name, limits)
    return found


def _prices(snapshot: Snapshot) -> dict[str, float]:
    """Node configuration → $/h of its cheapest offer."""
    found: dict[str, float] = {}
    for offer in snapshot.offers:
        found[offer.node_config] = min(offer.usd_per_hour, found.get(offer.node_config, offer.usd_per_hour))
    return found


def _load(snapshot: Snapshot, may: set[str]) -> dict[str, float]:
    """Work class → units per second of it that instances have to be able to do, of those classes that may share."""
    asked = {(each.app, each.request_type): each.requests_per_s for each in snapshot.demand}
    found: dict[str, float] = {}
    for route in snapshot.routes:
        rate = asked.get((route.app, route.request_type), 0.0)
        if rate > 0 and len(route.legs) == 1 and route.legs[0].work_class in may:
            (leg,) = route.legs
            found[leg.work_class] = rate * leg.units_per_request / snapshot.settings.cap(leg.work_class)
    return found


def _placed(load: Mapping[str, float], units: Units, usd_per_hour: float) -> _Placement:
    nodes: list[dict[str, float]] = []
    for name in sorted(load, key=lambda name: (-load[name] * _computation(units, name), name)):
        added, best = 0.0, None
        for node in nodes:
            unit = units.get(frozenset((*node, name)))
            more = 0.0 if unit is None else min(load[name], unit.room(node, name))
            if more > added:
                added, best = more, node
        if best is None or added < ALL * load[name]:
            best = {}
            nodes.append(best)
        best[name] = load[name]
    return _Placement(tuple(nodes), len(nodes) * usd_per_hour)


def _computation(units: Units, name: str) -> float:
    """Share of a node's time that one unit per second takes, at least: the first limit of a unit is its time."""
    uses: Sequence[float] = [unit.limits[0][name] for members, unit in units.items() if name in members]
    return min(uses, default=0.0)
