"""The allocation by demand once supply has prices: a bound far tighter than the linear relaxation's, and plans.

Lagrangian relaxation. With prices (row duals) on everything that demands share, such as nodes, pools and budget, each
class in each place is a knapsack cover in whole instances, and a demand picks the place, or the split over two and more
places, whose covers cost least. What the linear relaxation loses is mostly the last, partly idle instance of every
class; here it is counted. The bound holds for the columns examined, and the others cannot be in a better plan.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from control.allocator.columns import Floats, Ints, PickedColumns, Prices
from control.allocator.cover import Cover, cover
from control.allocator.problem import AllocationProblem
from control.allocator.routing import RouteTree
from control.allocator.splitting import Option, Split, best_split, index, split_from_below

PARTS = 10_000
"""Parts of a load in a cover: rounding costs the bound about one part in ten thousand per instance."""
SPLITS = 1_000
"""Parts of a demand when it is split over places."""
ANYWHERE = -1
"""The place of a cover that takes instances from everywhere."""

NOBODY: Ints = np.zeros(0, dtype=np.int64)

Block = tuple[int, int]
"""(demand, class), class -1 for all."""


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """Whole instances that serve a block: a demand, or one class of it where it has no choice of routes and places."""

    block: Block
    instances: Counter[int]
    """Column (index into the examined ones) → count."""
    hops: tuple[tuple[int, float], ...]
    """(hop, share of the demand), told once for each demand."""


@dataclass(frozen=True, slots=True, eq=False)
class Priced:
    """The demands at given prices on what they share."""

    bound: float
    cost: Floats
    """(columns,) of one instance at these prices."""
    splits: tuple[tuple[Split, ...], ...]
    """Splits by demand: serving it place by place, and (where it may be in several) from everywhere together. Both are
    bounds from below: the first knows that what belongs together meets, the second loses nothing to splits."""


def decomposes(problem: AllocationProblem) -> bool:
    """Tell whether every column serves one class and every class one leg of one route of one demand.

    Demands then share nothing but supply.
    """
    if not problem.columns.plain or not problem.routing.trees:
        return False
    owner: dict[int, tuple[int, str]] = {}
    for tree in problem.routing.trees:
        if len({k for k, _ in tree.load}) != len(tree.route.legs):  # two of one class, or one without work
            return False
        for k, _ in tree.load:
            if owner.setdefault(k, (tree.demand, tree.route.id)) != (tree.demand, tree.route.id):
                return False
    return True


class Decomposition:
    """Covers over the columns `examined` (those that a better plan than the one known may use)."""

    def __init__(self, problem: AllocationProblem, examined: PickedColumns, row_upper: Floats) -> None:
        columns, frame = problem.columns, problem.frame
        self.examined = examined
        self._problem, self._row_upper = problem, row_upper
        template = columns.library.point_template[examined.point]
        self._own = columns.own(template, examined.group)
        self._disk_gib = columns.disk_gib[template]
        self._by_group: dict[int, tuple[Ints, Floats]] = {}
        for group in np.unique(examined.group).tolist():
            of = np.flatnonzero(examined.group == group)
            self._by_group[group] = of, columns.library.nodes[template[of]].astype(np.float64)
        self._units = units = columns.units[columns.entry_start[examined.point]]
        self._up = np.ceil(units * PARTS - 1e-7).astype(np.int64)
        self._down = np.floor(units * PARTS + 1e-7).astype(np.int64)
        self._class = columns.entry_class[columns.entry_start[examined.point]]
        self._place = problem.group_place[examined.group]
        groups = len(problem.supply.groups)
        key = template * groups + examined.group
        self._copies = self._running_copies(key)
        self._saved = np.zeros(len(key))
        for i, (_, saved) in self._copies.items():
            self._saved[i] = saved
        self._trees, self._places = problem.routing.trees, len(problem.routing.places)
        local = [tree.demand for tree, _ in self._local_ways()]
        self._has_one_way = [local.count(d) == 1 for d in range(len(problem.routing.demands))]
        self._members = {
            (k, z): np.flatnonzero((self._class == k) & (self._place == z))
            for k in range(columns.classes)
            for z in range(len(problem.routing.places))
            if frame.class_rows[k, z] >= 0
        }
        for k in sorted({k for k, _ in self._members}):
            if sum(of == k for of, _ in self._members) > 1:
                self._members[k, ANYWHERE] = np.flatnonzero(self._class == k)
        own = np.concatenate([frame.class_rows.ravel(), frame.demand_rows, frame.balance_rows, frame.running_row])
        self.is_shared = np.ones(len(frame.row_names), dtype=bool)
        """(rows,) whether a row of the frame is priced, rather than a block's own."""
        self.is_shared[own[own >= 0].astype(np.int64)] = False
        self.is_shared[[level.row for level in frame.levels]] = False
        own_variables = [frame.hop_variables, frame.unmet_variables, frame.kept_variables]
        self._shared = np.ones(len(frame.variables), dtype=bool)
        self._shared[np.concatenate(own_variables).astype(np.int64)] = False

    @property
    def blocks(self) -> tuple[Block, ...]:
        """List the blocks that have to be served: demands with a choice of ways, otherwise every class of them."""
        blocks: set[Block] = set()
        for tree, _ in self._local_ways():
            blocks |= {(tree.demand, k if self._has_one_way[tree.demand] else -1) for k, _ in tree.load}
        return tuple(sorted(blocks))

    def _local_ways(self) -> Iterator[tuple[RouteTree, int]]:
        """Routes and the places in which requests can stay."""
        return ((tree, place) for tree in self._trees for place in range(self._places) if tree.local(place))

    @property
    def covers(self) -> int:
        """Knapsack covers in every round."""
        return len(self._members)

    @property
    def shared_variables(self) -> Ints:
        return np.flatnonzero(self._shared)

    def _running_copies(self, key: Ints) -> dict[int, tuple[int, float]]:
        """Column → (running instances, initialisation saved by each)."""
        frame = self._problem.frame
        at = np.flatnonzero(np.isin(key, frame.running_key))
        found = np.searchsorted(frame.running_key, key[at])
        saved = -frame.variables.cost[frame.kept_variables[found]]
        counts = frame.running_count[found]
        return {int(i): (int(n), float(s)) for i, n, s in zip(at, counts, saved, strict=True)}

    def shared_dual(self, dual: Floats) -> Floats:
        """Prices on what demands share, with the sign that each row's sense asks for."""
        frame = self._problem.frame
        out = np.where(self.is_shared, dual, 0.0)
        no_lower, no_upper = np.isinf(frame.row_lower), np.isinf(self._row_upper)
        out[no_lower] = np.minimum(out[no_lower], 0.0)
        out[no_upper] = np.maximum(out[no_upper], 0.0)
        return out

    def price(self, dual: Floats) -> Priced | None:
        """The bound at row duals (own rows are ignored), or None at prices that would pay for an instance."""
        frame = self._problem.frame
        dual = self.shared_dual(dual)
        cost = self._cost(frame.prices(dual, cost=True))
        reduced = frame.variables.cost - frame.variables.matrix.dot(dual)
        hop_cost = [tree.by_edge(reduced[frame.hop_variables]) for tree in self._trees]
        least_usd = [tree.least(usd) for tree, usd in zip(self._trees, hop_cost, strict=True)]
        if (cost < -1e-9).any() or any((usd < -1e-9).any() for usd in least_usd):
            return None
        cost = np.maximum(cost, 0.0)
        limits = np.where(dual > 0, frame.row_lower, np.where(dual < 0, self._row_upper, 0.0))
        bound = float(dual @ limits)
        bound += float((np.minimum(reduced, 0.0) * frame.variables.upper)[self._shared].sum())
        covers = {at: self._cover(members, self._up, cost) for at, members in self._members.items()}
        splits = []
        for demand in range(len(self._has_one_way)):
            choices = [self._options(demand, hop_cost), self._pooled_options(demand, least_usd)]
            splits.append(tuple(split_from_below(options, covers, SPLITS) for options in choices if options))
        least = sum(max((split.least for split in of), default=np.inf) for of in splits)
        return Priced(bound + least, cost, tuple(splits))

    def _cost(self, prices: Prices) -> Floats:
        """(columns,) of one instance."""
        cost = self._own.copy()
        for group, (columns, nodes) in self._by_group.items():
            cost[columns] += nodes @ prices.cell[:, group] + self._disk_gib[columns] * prices.gib[group]
        if prices.class_value.any():
            cost -= self._units * prices.class_value[self._class, self.examined.group]
        return cost

    def _options(self, demand: int, hop_cost: list[list[Floats]]) -> tuple[Option, ...]:
        """One for each route and place where requests enter, whether they can stay there or have to go on elsewhere."""
        options = []
        for t, tree in enumerate(self._trees):
            if tree.demand != demand:
                continue
            usd, crossing = tree.least(hop_cost[t]), tree.least_crossing(hop_cost[t])
            for place in np.flatnonzero(np.isfinite(usd)).tolist():
                way = t * self._places + place if tree.local(place) else -1
                load = tuple(((k, place), share) for k, share in tree.load)
                options.append(Option(way, float(usd[place]), load, float(crossing[place] - usd[place])))
        return tuple(options)

    def _pooled_options(self, demand: int, least_usd: list[Floats]) -> tuple[Option, ...]:
        """One for each route: whatever the places, its classes' capacities together cover the whole load."""
        options = []
        for tree, usd in zip(self._trees, least_usd, strict=True):
            if tree.demand == demand:
                load = tuple(((k, ANYWHERE), share) for k, share in tree.load)
                options.append(Option(-1, float(usd.min()), load, np.inf))
        return tuple(options) if all(key in self._members for o in options for key, _ in o.load) else ()

    def choices(self, priced: Priced) -> list[Choice]:
        """Whole instances for every demand, cheapest at the prices: these use capacities rounded down."""
        covers = {
            at: self._cover(members, self._down, priced.cost)
            for at, members in self._members.items()
            if at[1] != ANYWHERE
        }
        found: list[Choice] = []
        for demand, (split, *_) in enumerate(priced.splits):
            used: dict[Block, Counter[int]] = {}
            hops: dict[Block, list[tuple[int, float]]] = {}
            for number, share in best_split(split.options, covers, SPLITS):
                option = split.options[number]
                local = self._trees[option.way // self._places].local(option.way % self._places)
                for leg, (key, load) in enumerate(option.load):
                    members = self._members[key]
                    items = covers[key].items(int(index(share * load, PARTS, up=True)))
                    block = (demand, key[0] if self._has_one_way[demand] else -1)
                    used.setdefault(block, Counter()).update({int(members[i]): n for i, n in items.items()})
                    hops.setdefault(block, []).extend((hop, share) for hop in local if leg == 0)
            found.extend(Choice(block, instances, tuple(hops[block])) for block, instances in used.items())
        return found

    def rises(self, priced: Priced) -> Floats:
        """(columns,) how much the bound rises, at least, when a column is used."""
        rise = np.full(len(priced.cost), np.inf)
        for splits in priced.splits:
            least = max(split.least for split in splits)
            used = np.zeros(len(rise))
            for split in splits:
                used = np.maximum(used, self._with_one(split, priced.cost))
            rise = np.minimum(rise, np.maximum(used - least, 0.0))
        return rise

    def _with_one(self, split: Split, cost: Floats) -> Floats:
        """(columns,) the least cost of the demand with a column of its classes in use; +∞ for the others."""
        least = np.full(len(cost), np.inf)
        splits = len(split.rest) - 1
        parts = np.arange(splits + 1) if len(split.options) > 1 else np.array([splits])
        for number, option in enumerate(split.options):
            base = split.parts[number][parts] + split.rest[splits - parts]
            share = np.maximum(parts - 1, 0) / splits
            base[-1], share[-1] = split.whole[number], 1.0
            for table, (key, load) in zip(split.tables[number], option.load, strict=True):
                members = self._members.get(key, NOBODY)
                at = index(share * load, PARTS, up=False)
                sizes, of = np.unique(self._up[members], return_inverse=True)
                with np.errstate(invalid="ignore"):
                    without = np.where(np.isfinite(table[at]), base - table[at], np.inf)
                with_one = np.array([np.min(without + table[np.maximum(at - size, 0)]) for size in sizes])
                least[members] = np.minimum(least[members], cost[members] - self._saved[members] + with_one[of])
        # Where nothing enters, a column serves what crosses: the price of crossing is in the bound, its own is not.
        mine = np.isin(self._class, [k for option in split.options for (k, _), _ in option.load])
        other = np.flatnonzero(mine & np.isinf(least))
        least[other] = split.least + cost[other] - self._saved[other]
        return least

    def _cover(self, members: Ints, size: Ints, cost: Floats) -> Cover:
        position = {int(m): i for i, m in enumerate(members.tolist())} if self._copies else {}
        copies = [
            (position[i], max(0.0, float(cost[i]) - saved))
            for i, (count, saved) in self._copies.items()
            if i in position
            for _ in range(min(count, PARTS // max(1, int(size[i])) + 1))
        ]
        return cover(size[members], cost[members], PARTS, copies)
