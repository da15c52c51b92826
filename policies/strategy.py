"""Single-node replicas as the homogeneous baselines see them: what one sustains and what one costs."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from templates_lib.values.library import Library
from templates_lib.values.offer import Market
from templates_lib.values.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Replica:
    """One single-node template in one zone and market."""

    template: int
    """Index into the library."""
    work_class: str
    config: str
    zone: str
    market: Market
    units_per_s: float
    """Capacity that a plan may use: certified capacity times the utilisation cap."""
    usd_per_hour: float
    """The cheapest offer's price, with the node's disk."""

    @property
    def usd_per_unit(self) -> float:
        """Dollars per hour for one unit per second: the inverse of goodput per dollar."""
        return self.usd_per_hour / self.units_per_s


def single_node_replicas(snapshot: Snapshot, library: Library) -> dict[str, tuple[Replica, ...]]:
    """Work class id → its single-class, single-node replicas at every place that offers their node, cheapest first."""
    cheapest = _cheapest_prices(snapshot)
    disks, component_of = snapshot.charged_disks, {c.id: c.component for c in library.classes}
    found: dict[str, list[Replica]] = {c.id: [] for c in library.classes}
    for template, config, work_class, units_per_s in _single_node_templates(library):
        capped = units_per_s * snapshot.settings.cap(work_class, library.template_id(template), [config])
        component, engines = component_of[work_class], library.engine_of(template)
        gib = disks.node_gib([component], engines)
        for (offered, zone, market), price in cheapest.items():
            if offered == config and snapshot.may_be_at(zone.partition("/")[0], component, engines):
                usd = price + disks.usd_per_hour(zone, gib)
                found[work_class].append(Replica(template, work_class, config, zone, market, capped, usd))
    return {
        c: tuple(sorted(rs, key=lambda r: (r.usd_per_unit, r.zone, r.market.value, r.template)))
        for c, rs in found.items()
    }


def _cheapest_prices(snapshot: Snapshot) -> dict[tuple[str, str, Market], float]:
    cheapest: dict[tuple[str, str, Market], float] = {}
    for offer in snapshot.offers:
        key = (offer.node_config, offer.zone_id, offer.market)
        cheapest[key] = min(cheapest.get(key, np.inf), offer.usd_per_hour)
    return dict(sorted(cheapest.items()))


def _single_node_templates(library: Library) -> Iterator[tuple[int, str, str, float]]:
    """(template, config, work class, units/s) of the templates of one node with one point of one class."""
    points_of = np.bincount(library.point_template, minlength=library.size)
    entries_of = np.bincount(library.point_template[library.entry_point], minlength=library.size)
    single = (library.nodes.sum(axis=1) == 1) & (points_of == 1) & (entries_of == 1)
    template_of_entry = library.point_template[library.entry_point]
    for entry in np.flatnonzero(single[template_of_entry]):
        template = int(template_of_entry[entry])
        config = library.configs[int(library.nodes[template].argmax())]
        work_class = library.classes[int(library.entry_class[entry])].id
        yield template, config, work_class, float(library.entry_units_per_s[entry])
