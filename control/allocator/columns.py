"""All columns of the allocation, (operating point, group) pairs, priced as matrix products and never listed."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from control.allocator.market import GroupedSupply
from templates_lib.values.library import Library

Ints = NDArray[np.integer[Any]]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Prices:
    """Prices of a column at given row duals, as linear maps of its nodes and its capacity."""

    cell: Floats
    """(C, G) $/h of one node."""
    gib: Floats
    """(G,) $/h of one GiB of its disk."""
    class_value: Floats
    """(K, G) $/h for the whole peak load of a class."""
    count_value: Floats
    """(K,) $/h for being an instance that serves the class."""
    with_own: bool
    """True where what columns cost by themselves counts (`Columns.own`); it does not while unmet demand is
    minimised."""


@dataclass(frozen=True, slots=True, eq=False)
class PickedColumns:
    """Columns by point and group, with their reduced costs."""

    point: Ints
    group: Ints
    reduced_cost: Floats

    def __len__(self) -> int:
        return len(self.point)

    def take(self, at: Ints) -> "PickedColumns":
        return PickedColumns(self.point[at], self.group[at], self.reduced_cost[at])


def concatenate(parts: list[PickedColumns]) -> PickedColumns:
    if not parts:
        return PickedColumns(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))
    return PickedColumns(
        np.concatenate([p.point for p in parts]),
        np.concatenate([p.group for p in parts]),
        np.concatenate([p.reduced_cost for p in parts]),
    )


def allowed_groups(library: Library, supply: GroupedSupply) -> NDArray[np.bool_]:
    """(n, G): whether one instance of the template fits what the group sells of every configuration."""
    allowed = np.ones((library.size, len(supply.groups)), dtype=bool)
    for c in range(len(library.configs)):
        used = library.nodes[:, c]
        most = int(used.max(initial=0))
        for g in np.flatnonzero(supply.bound[c] < most):
            allowed[:, g] &= used <= supply.bound[c, g]
    return allowed


def restrict(library: Library, classes: tuple[int, ...]) -> tuple[Library, NDArray[np.bool_]]:
    """The library without capacity for other classes, and without points and templates that then have none; and which
    of its templates (n,) are left."""
    wanted = np.zeros(len(library.classes), dtype=bool)
    wanted[list(classes)] = True
    keep_entry = wanted[library.entry_class] & (library.entry_units_per_s > 0)
    if keep_entry.all():
        return library, np.ones(library.size, dtype=bool)
    keep_point = np.zeros(len(library.point_template), dtype=bool)
    keep_point[library.entry_point[keep_entry]] = True
    keep_template = np.zeros(library.size, dtype=bool)
    keep_template[library.point_template[keep_point]] = True
    new_point = np.cumsum(keep_point, dtype=np.int32) - 1
    new_template = np.cumsum(keep_template, dtype=np.int32) - 1
    restricted = replace(
        library,
        ids=library.ids[keep_template],
        nodes=library.nodes[keep_template],
        point_template=new_template[library.point_template[keep_point]],
        entry_point=new_point[library.entry_point[keep_entry]],
        entry_class=library.entry_class[keep_entry],
        entry_units_per_s=library.entry_units_per_s[keep_entry],
        template_engine=library.template_engine[keep_template],
    )
    return restricted, keep_template


class Columns:
    """The points of a library's templates over G groups. `units` are capacities as shares of the class's peak load.

    Every capacity of `library` must be of one of `classes` (see `restrict`).

    A single-point template's capacity is clipped at the peak: an integer count that covers the load before clipping
    covers it after, and the linear relaxation is tighter (docs/plans.md).
    """

    def __init__(
        self,
        library: Library,
        supply: GroupedSupply,
        allowed: NDArray[np.bool_],
        classes: tuple[int, ...],
        usable_share: Floats,
        risk_hours: float,
        node_gib: Ints,
        more_init: Floats,
    ) -> None:
        """`usable_share` (entries,) turns units per second into shares of the peak (utilisation cap / peak). `node_gib`
        (n,) is the disk of each node of a template, `more_init` (n,) by how much its K is above that of the
        settings."""
        self.library, self.supply, self.allowed = library, supply, allowed
        self.nodes = library.nodes.astype(np.float32)
        self.disk_gib: Floats = library.nodes.sum(axis=1, dtype=np.float64) * node_gib
        """(n,) GiB of all nodes of an instance."""
        self.more_init = more_init
        self.points = len(library.point_template)
        self.classes = len(classes)
        position = np.full(len(library.classes), -1, dtype=np.int64)
        position[list(classes)] = np.arange(len(classes))
        self.entry_class = position[library.entry_class]
        self.template_start = np.searchsorted(library.point_template, np.arange(library.size + 1))
        self.entry_start = np.searchsorted(library.entry_point, np.arange(self.points + 1))
        points_of = np.diff(self.template_start)
        self.single_point = points_of == 1
        units = library.entry_units_per_s * usable_share
        clip = self.single_point[library.point_template[library.entry_point]]
        self.units: Floats = np.where(clip, np.minimum(units, 1.0), units)
        self.plain = bool(self.points == library.size and len(units) == self.points)
        self._units32 = self.units.astype(np.float32)
        self._blocked = ~allowed
        self._risk_groups: Ints = np.flatnonzero(supply.interruptions_per_hour.any(axis=0) & (risk_hours > 0))
        self._risk_hours = risk_hours
        groups = max(1, len(supply.groups))
        # About two thousand (chunk, group) pairs, each of which may offer its best column in a round of generation.
        self.chunk = int(np.clip(library.size * groups // 2000, 64, 8192))

    def entries(self, point: Ints) -> tuple[Ints, Ints]:
        """(position in `point`, capacity entry) of every capacity of the points."""
        return expand(self.entry_start[point], self.entry_start[point + 1])

    def points_of(self, template: Ints) -> tuple[Ints, Ints]:
        """(position in `template`, point) of every point of the templates."""
        return expand(self.template_start[template], self.template_start[template + 1])

    def rent(self, template: Ints, group: Ints) -> Floats:
        """$/h of one instance at the cheapest offer of every cell, disks included."""
        nodes = self.library.nodes[template].astype(np.float64)
        return np.asarray(np.einsum("ic,ci->i", nodes, self.supply.price[:, group])) + self.disks(template, group)

    def disks(self, template: Ints, group: Ints) -> Floats:
        """$/h of the disks of one instance."""
        return np.asarray(self.disk_gib[template] * self.supply.usd_per_gib_hour[group])

    def risk(self, template: Ints, group: Ints) -> Floats:
        """$/h lost by interruptions: interruptions per hour of all nodes · restart hours · price of the instance."""
        if not len(self._risk_groups):
            return np.zeros(len(template))
        nodes = self.library.nodes[template].astype(np.float64)
        often = np.einsum("ic,ci->i", nodes, self.supply.interruptions_per_hour[:, group])
        return np.asarray(self.rent(template, group) * often * self._risk_hours)

    def own(self, template: Ints, group: Ints) -> Floats:
        """$/h that an instance costs beside the prices of its nodes and disks: its risk, and what its start-up costs
        more than that of templates whose engine nodes have already."""
        more = self.more_init[template]
        risk = self.risk(template, group)
        return risk + more * self.rent(template, group) if more.any() else risk

    def most(self, template: Ints, group: Ints) -> Floats:
        """Instances that the cells' bounds allow, were nothing else there."""
        nodes = self.library.nodes[template].astype(np.float64)
        bound = self.supply.bound[:, group].T
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.floor(np.where(nodes > 0, bound / nodes, np.inf).min(axis=1, initial=np.inf)))

    def chunks(self, prices: Prices) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """(first point, reduced costs (points, G)) of consecutive templates; +∞ where supply forbids the column."""
        cell = prices.cell.astype(np.float32)
        gib = prices.gib.astype(np.float32) if prices.gib.any() else None
        disk_gib = self.disk_gib.astype(np.float32)
        class_value = prices.class_value.astype(np.float32)
        counted = prices.count_value if prices.count_value.any() else None
        for first in range(0, self.library.size, self.chunk):
            last = min(first + self.chunk, self.library.size)
            cost = self.nodes[first:last] @ cell
            if gib is not None:
                cost += disk_gib[first:last, None] * gib
            if prices.with_own:
                for g in self._risk_groups:
                    cost[:, g] += self.risk(np.arange(first, last), np.full(last - first, g)).astype(np.float32)
                if len(late := np.flatnonzero(self.more_init[first:last])):
                    cost[late] += self._later(first + late)
            cost[self._blocked[first:last]] = np.inf
            p0, p1 = self.template_start[first], self.template_start[last]
            e0, e1 = self.entry_start[p0], self.entry_start[p1]
            value = self._units32[e0:e1, None] * class_value[self.entry_class[e0:e1]]
            if not self.plain:
                value = np.add.reduceat(value, self.entry_start[p0:p1] - e0, axis=0)
                cost = cost[self.library.point_template[p0:p1] - first]
            cost -= value
            if counted is not None:
                served = self.served(np.arange(first, last)) @ counted
                cost -= served[self.library.point_template[p0:p1] - first, None].astype(np.float32)
            yield int(p0), cost

    def _later(self, template: Ints) -> NDArray[np.float32]:
        """(len(template), G) $/h that the start-up of templates costs more than that of others."""
        disks = np.outer(self.disk_gib[template], self.supply.usd_per_gib_hour).astype(np.float32)
        rent = self.nodes[template] @ self.supply.price.astype(np.float32) + disks
        return np.asarray(self.more_init[template, None].astype(np.float32) * rent)

    def served(self, template: Ints) -> Floats:
        """(len(template), K): 1 where any point of the template serves the class."""
        entry_template = self.library.point_template[self.library.entry_point]
        first, last = np.searchsorted(entry_template, template), np.searchsorted(entry_template, template + 1)
        owner, entry = expand(first, last)
        out = np.zeros((len(template), self.classes))
        out[owner, self.entry_class[entry]] = 1.0
        return out

    def linked_classes(self) -> list[frozenset[int]]:
        """Classes that one instance may serve together, and so may be lost together."""
        owner = self.library.point_template[self.library.entry_point]
        parent = list(range(self.classes))

        def root(k: int) -> int:
            while parent[k] != k:
                k = parent[k]
            return k

        same = np.flatnonzero(owner[1:] == owner[:-1])
        pairs = {(int(self.entry_class[e]), int(self.entry_class[e + 1])) for e in same}
        for a, b in sorted(pairs):
            parent[root(a)] = root(b)
        groups: dict[int, set[int]] = {}
        for k in range(self.classes):
            groups.setdefault(root(k), set()).add(k)
        return [frozenset(g) for _, g in sorted(groups.items())]

    def reduced_costs(self, prices: Prices, point: Ints, group: Ints) -> Floats:
        """Compute reduced costs of chosen columns in float64."""
        template = self.library.point_template[point]
        nodes = self.library.nodes[template].astype(np.float64)
        cost = np.einsum("ic,ci->i", nodes, prices.cell[:, group]) + self.disk_gib[template] * prices.gib[group]
        if prices.with_own:
            cost += self.own(template, group)
        owner, entry = self.entries(point)
        value = self.units[entry] * prices.class_value[self.entry_class[entry], group[owner]]
        cost -= np.bincount(owner, weights=value, minlength=len(point))
        if prices.count_value.any():
            cost -= self.served(template) @ prices.count_value
        return np.asarray(cost)

    def best(self, prices: Prices, below: float) -> PickedColumns:
        """The least reduced cost of every chunk and group, where it is under `below`."""
        parts: list[PickedColumns] = []
        for first, reduced in self.chunks(prices):
            row = reduced.argmin(axis=0)
            least = reduced[row, np.arange(reduced.shape[1])]
            group = np.flatnonzero(least < below)
            parts.append(PickedColumns(first + row[group], group, least[group].astype(np.float64)))
        return concatenate(parts)

    def under(self, prices: Prices, threshold: float) -> PickedColumns:
        """Every column whose reduced cost is under `threshold`."""
        parts: list[PickedColumns] = []
        for first, reduced in self.chunks(prices):
            row, group = np.nonzero(reduced < threshold)
            parts.append(PickedColumns(first + row, group, reduced[row, group].astype(np.float64)))
        return concatenate(parts)

    def all(self) -> PickedColumns:
        template, group = np.nonzero(self.allowed)
        owner, point = self.points_of(template)
        return PickedColumns(point, group[owner], np.zeros(len(point)))


def expand(first: Ints, last: Ints) -> tuple[Ints, Ints]:
    """Concatenated ranges [first_i, last_i): (i of each element, the element)."""
    lengths = last - first
    owner = np.repeat(np.arange(len(first)), lengths)
    offset = np.arange(len(owner)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return owner, np.asarray(first[owner] + offset)
