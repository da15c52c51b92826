"""The allocation's constraints: everything but the template columns themselves (docs/plans.md)."""

from dataclasses import dataclass

import numpy as np

from control.allocator.columns import Columns, Floats, Ints, PickedColumns, Prices
from control.allocator.market import GroupedSupply
from control.allocator.routing import NOWHERE, RoutedDemands
from control.allocator.rows import INFINITY, ProgramBuilder, RowMap, RowMapBuilder, SparseMatrix, Variables, compress
from templates_lib.values.settings import Mode, Settings, Survive
from templates_lib.values.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Level:
    """Elastic variables that are minimised together, before the next level and before cost."""

    row: int
    """Holds their weighted sum, without a limit until one is set."""
    variables: tuple[int, ...]
    weights: tuple[float, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ProgramFrame:
    row_names: tuple[str, ...]
    row_lower: Floats
    row_upper: Floats
    variables: Variables
    hop_variables: Ints
    """(H,) share of its demand that takes each hop: the first variables, in order."""
    unmet_variables: Ints
    """(D,) share of each demand that is not served."""
    offer_variables: Ints
    """(O,) nodes rented from an offer that shares its cell with others, otherwise -1."""
    levels: tuple[Level, ...]
    """Levels by descending priority."""
    cells: RowMap
    """Rows of one node of cell c · G + g."""
    classes: RowMap
    """Rows of the whole peak load of (class, group) k · G + g."""
    counts: RowMap
    """Rows of one instance that serves class k."""
    gibs: RowMap
    """Rows of one GiB of disk in group g."""
    cell_cost: Floats
    """(C, G) objective of one node, initialisation by the settings' own K included."""
    gib_cost: Floats
    """(G,) objective of one GiB of its disk, initialisation included."""
    running_key: Ints
    """Template · G + group of running instances, ascending."""
    running_row: Ints
    """Row that lends each of them its initialisation cost back."""
    running_count: Floats
    kept_variables: Ints
    """Variables that count how many of each of them are kept: Σ saved · kept is lent back."""
    class_rows: Ints
    """(K, places) row in which capacity covers the load, -1 where nothing flows."""
    demand_rows: Ints
    """(D,)"""
    balance_rows: Ints
    """Rows that let what comes to a stop leave it."""
    loss_variables: Ints
    """(K, places) largest capacity of one instance when a plan must survive its loss, otherwise -1."""

    def prices(self, row_dual: Floats, *, cost: bool) -> Prices:
        """Column prices at row duals; `cost` false prices for the unmet demand alone."""
        shape = self.cell_cost.shape
        node = (self.cell_cost if cost else 0.0) - self.cells.dot(row_dual).reshape(shape)
        value = self.classes.dot(row_dual).reshape(len(self.class_rows), shape[1])
        gib = (self.gib_cost if cost else 0.0) - self.gibs.dot(row_dual)
        return Prices(node, gib, value, self.counts.dot(row_dual), cost)

    def cost(self, columns: Columns, picked: PickedColumns) -> Floats:
        template = columns.library.point_template[picked.point]
        nodes = columns.library.nodes[template].astype(np.float64)
        rent = np.einsum("ic,ci->i", nodes, self.cell_cost[:, picked.group])
        disks = columns.disk_gib[template] * self.gib_cost[picked.group]
        return np.asarray(rent + disks + columns.own(template, picked.group))

    def matrix(self, columns: Columns, picked: PickedColumns) -> SparseMatrix:
        """Coefficients of columns in every row."""
        groups = self.cell_cost.shape[1]
        template = columns.library.point_template[picked.point]
        nodes = columns.library.nodes[template]
        owner, config = np.nonzero(nodes)
        at, row, value = self.cells.entries(
            config * groups + picked.group[owner], nodes[owner, config].astype(np.float64)
        )
        parts: list[tuple[Ints, Ints, Floats]] = [(owner[at], row, value)]
        of, entry = columns.entries(picked.point)
        at, row, value = self.classes.entries(
            columns.entry_class[entry] * groups + picked.group[of], columns.units[entry]
        )
        parts.append((of[at], row, value))
        if len(self.gibs.row):
            parts.append(self.gibs.entries(picked.group, columns.disk_gib[template]))
        if len(self.counts.row):
            owner, served = np.nonzero(columns.served(template))
            at, row, value = self.counts.entries(served, np.ones(len(served)))
            parts.append((owner[at], row, value))
        key = template * groups + picked.group
        place = np.searchsorted(self.running_key, key)
        runs = np.flatnonzero(np.append(self.running_key, -1)[place] == key)
        parts.append((runs, self.running_row[place[runs]], np.full(len(runs), -1.0)))
        owners, rows, values = (np.concatenate(p) for p in zip(*parts, strict=True))
        return compress(len(picked), len(self.row_names), owners, rows, values)


@dataclass(frozen=True, slots=True, eq=False)
class RunningColumns:
    """Templates of the library that run, by group, and how many of each."""

    template: Ints
    group: Ints
    count: Floats


class FrameBuilder:
    def __init__(self, snapshot: Snapshot, supply: GroupedSupply, routing: RoutedDemands, columns: Columns) -> None:
        self._settings: Settings = snapshot.settings
        self._snapshot, self._supply, self._routing, self._columns = snapshot, supply, routing, columns
        self._program = ProgramBuilder()
        self._groups = len(supply.groups)
        self._cells = RowMapBuilder(len(supply.configs) * self._groups)
        self._classes = RowMapBuilder(len(routing.classes) * self._groups)
        self._counts = RowMapBuilder(len(routing.classes))
        self._gibs = RowMapBuilder(self._groups)
        self._names = [columns.library.classes[k].id for k in routing.classes]
        paper = self._settings.mode is Mode.PAPER
        self._group_place = np.zeros(self._groups, dtype=np.int64) if paper else supply.group_zone
        self._class_row = np.full((len(routing.classes), len(routing.places)), -1, dtype=np.int64)
        self._demand_row = np.zeros(len(routing.demands), dtype=np.int64)
        self._loss = np.full((len(routing.classes), len(routing.places)), -1, dtype=np.int64)
        self._largest = float(columns.units.max(initial=1.0))

    def build(self, running: RunningColumns) -> ProgramFrame:
        unmet = self._demand_rows()
        hops = np.arange(len(self._routing.hops))
        balances = self._balance_rows(dict(enumerate(hops.tolist())))
        self._class_rows()
        cell_cost, offers = self._supply_rows()
        self._budget_row(offers)
        self._pool_rows(offers)
        shortage = self._replica_rows()
        self._share_rows(unmet)
        self._survival_rows(unmet)
        key, row, count, kept = self._running_rows(running)
        if self._settings.beside_running:
            self._beside_rows(key, kept)
        levels = self._levels(unmet, shortage)
        lower, upper = self._program.row_bounds()
        return ProgramFrame(
            tuple(self._program.row_names), lower, upper, self._program.variables(),
            hops, np.array(unmet, dtype=np.int64), offers, levels,
            self._cells.build(), self._classes.build(), self._counts.build(), self._gibs.build(),
            cell_cost, self._supply.usd_per_gib_hour * (1.0 + self._settings.init_factor),
            key, row, count, kept, self._class_row, self._demand_row, np.array(balances, dtype=np.int64), self._loss,
        )  # fmt: skip

    def _demand_rows(self) -> list[int]:
        """Shares of a demand's entering hops and the unmet share add up to one."""
        program = self._program
        for hop in self._routing.hops:
            program.variable(hop.usd_per_hour, 1.0)
        unmet = [program.variable(0.0, 1.0) for _ in self._routing.demands]
        rows = [program.row(f"demand/{demand.key}", 1.0, 1.0) for demand in self._routing.demands]
        self._demand_row[:] = rows
        for h, hop in enumerate(self._routing.hops):
            if hop.enters:
                program.put(rows[hop.demand], h, 1.0)
        for variable, row in zip(unmet, rows, strict=True):
            program.put(row, variable, 1.0)
        return unmet

    def _balance_rows(self, variables: dict[int, int]) -> list[int]:
        """Add the rows by which what comes to a stop in a place leaves it by every edge. Hops that `variables` does not
        name are empty."""
        sides = [
            (tree.route.id, [[variables[h] for h in hops if h in variables] for hops in both])
            for tree in self._routing.trees
            for both in tree.balances()
        ]
        return [self._program.balance(f"balance/{route}", *both) for route, both in sides if any(both)]

    def _label(self, k: int, place: int) -> str:
        where = self._routing.places[place]
        return self._names[k] if where == NOWHERE else f"{self._names[k]}@{where}"

    def _class_rows(self) -> None:
        """Capacity of every class in every place covers what flows there."""
        loaded = sorted({(k, place) for hop in self._routing.hops for k, place, _ in hop.load})
        row_of = {at: self._program.row(f"class/{self._label(*at)}", 0.0, INFINITY) for at in loaded}
        for h, hop in enumerate(self._routing.hops):
            for k, place, share in hop.load:
                self._program.put(row_of[k, place], h, -share)
        for (k, place), row in row_of.items():
            self._class_row[k, place] = row
            for g in np.flatnonzero(self._group_place == place):
                self._classes.add(k * self._groups + g, row, 1.0)

    def _supply_rows(self) -> tuple[Floats, Ints]:
        """Nodes of a cell within its offers. A cell of one offer is priced directly; several are rented by name."""
        supply, program = self._supply, self._program
        init = self._settings.init_factor
        variables = np.full(len(supply.offers), -1, dtype=np.int64)
        for c, g in np.argwhere(supply.bound > 0):
            cell, only = c * self._groups + g, supply.only_offer[c, g]
            if only >= 0:
                row = program.row(f"offer/{supply.offers[only].key}", -INFINITY, supply.bound[c, g])
                self._cells.add(cell, row, 1.0)
                continue
            zone, market = supply.groups[g]
            row = program.row(f"nodes/{supply.configs[c]}@{zone}/{market.value}", -INFINITY, 0.0)
            self._cells.add(cell, row, 1.0)
            for o in np.flatnonzero((supply.offer_config == c) & (supply.offer_group == g) & (supply.offer_bound > 0)):
                variables[o] = program.variable(supply.offers[o].usd_per_hour, supply.offer_bound[o], integer=True)
                program.put(row, int(variables[o]), -1.0)
        rented_directly = supply.only_offer >= 0
        return supply.price * np.where(rented_directly, 1.0 + init, init), variables

    def _per_node(self, row: int, offer: int, coefficient: float, offers: Ints) -> None:
        """One node of an offer adds `coefficient` to a row."""
        if offers[offer] >= 0:
            self._program.put(row, int(offers[offer]), coefficient)
        elif self._supply.offer_bound[offer] > 0:
            cell = self._supply.offer_config[offer] * self._groups + self._supply.offer_group[offer]
            self._cells.add(cell, row, coefficient)

    def _budget_row(self, offers: Ints) -> None:
        limit = self._settings.guardrails.max_usd_per_hour
        if limit is None:
            return
        row = self._program.row("budget", -INFINITY, limit)
        for o, offer in enumerate(self._supply.offers):
            self._per_node(row, o, offer.usd_per_hour, offers)
        for g in np.flatnonzero(self._supply.usd_per_gib_hour):
            self._gibs.add(g, row, self._supply.usd_per_gib_hour[g])
        for h, hop in enumerate(self._routing.hops):
            if hop.usd_per_hour > 0:
                self._program.put(row, h, hop.usd_per_hour)

    def _pool_rows(self, offers: Ints) -> None:
        for pool in self._snapshot.pools:
            members = [(o, offer) for o, offer in enumerate(self._supply.offers) if offer.key in pool.members]
            if not members:
                continue
            row = self._program.row(f"pool/{pool.id}", -INFINITY, pool.limit)
            for o, offer in members:
                self._per_node(row, o, pool.members[offer.key], offers)

    def _replica_rows(self) -> list[int]:
        """Bounds on instances per class. A minimum that supply cannot give is short, not infeasible."""
        shortage: list[int] = []
        for k, name in enumerate(self._names):
            bounds = self._settings.guardrails.replicas.get(name)
            if bounds is None:
                continue
            upper = INFINITY if bounds.max is None else float(bounds.max)
            row = self._program.row(f"replicas/{name}", float(bounds.min), upper)
            self._counts.add(k, row, 1.0)
            if bounds.min > 0:
                shortage.append(self._program.variable(0.0, float(bounds.min)))
                self._program.put(row, shortage[-1], 1.0)
        return shortage

    def _share_rows(self, unmet: list[int]) -> None:
        guardrails = self._settings.guardrails
        if guardrails.max_spot_share >= 1.0 and guardrails.max_zone_share >= 1.0:  # hops are many
            return
        spot = self._supply.is_spot
        for k, name in enumerate(self._names):
            loads = ((h, sum(s for at, _, s in hop.load if at == k)) for h, hop in enumerate(self._routing.hops))
            total = [(h, share) for h, share in loads if share > 0]
            if guardrails.max_spot_share < 1.0 and spot.any() and total:
                row = self._program.row(f"spot/{name}", 0.0, INFINITY)
                for variable, share in total:
                    self._program.put(row, variable, -(1.0 - guardrails.max_spot_share) * share)
                for g in np.flatnonzero(~spot):
                    self._classes.add(k * self._groups + g, row, 1.0)
            if guardrails.max_zone_share < 1.0 and total:
                self._zone_share_rows(k, total, unmet)

    def _zone_share_rows(self, k: int, total: list[tuple[int, float]], unmet: list[int]) -> None:
        """Limit each zone to a share of the class's demand. Without places, what a zone covers is a variable."""
        most = self._settings.guardrails.max_zone_share
        cover: dict[int, list[tuple[int, float]]] = {z: [] for z in range(len(self._supply.zones))}
        if self._settings.mode is Mode.PAPER:
            balance = self._program.row(f"cover/{self._names[k]}", 0.0, INFINITY)
            for variable, share in total:
                self._program.put(balance, variable, -share)
            for z, zone in enumerate(self._supply.zones):
                covered = self._program.variable(0.0, 1.0)
                cover[z].append((covered, 1.0))
                self._program.put(balance, covered, 1.0)
                row = self._program.row(f"cover/{self._names[k]}@{zone}", 0.0, INFINITY)
                self._program.put(row, covered, -1.0)
                for g in np.flatnonzero(self._supply.group_zone == z):
                    self._classes.add(k * self._groups + g, row, 1.0)
        else:
            for h, hop in enumerate(self._routing.hops):
                for at, place, share in hop.load:
                    if at == k:
                        cover[place].append((h, share))
        for z, zone in enumerate(self._supply.zones):
            row = self._program.row(f"zone-share/{self._names[k]}@{zone}", 0.0, INFINITY)
            for variable, share in total:
                self._program.put(row, variable, most * share)
            for d, variable in enumerate(unmet):
                self._program.put(row, variable, most * float(self._routing.demand_load[d, k]))
            for variable, share in cover[z]:
                self._program.put(row, variable, -share)

    def _survival_rows(self, unmet: list[int]) -> None:
        """Require for every loss flows that still serve `survive_share` of what is served."""
        every = self._routing.hops
        if self._settings.survive is Survive.ZONE:
            for z, zone in enumerate(self._supply.zones):
                name = f"survive/{zone}"
                hops = [h for h, hop in enumerate(every) if self._settings.mode is Mode.PAPER or z not in hop.places]
                self._scenario(name, hops, set(range(len(self._routing.demands))), unmet, z, set())
        elif self._settings.survive is Survive.INSTANCE:
            for linked in self._columns.linked_classes():
                demands = {hop.demand for hop in every if any(k in linked for k, _, _ in hop.load)}
                hops = [h for h, hop in enumerate(every) if hop.demand in demands]
                places = sorted({place for h in hops for k, place, _ in every[h].load if k in linked})
                for place in places:
                    lost = {(k, place) for k in linked}
                    name = f"survive/instance/{self._label(min(linked), place)}"
                    self._scenario(name, hops, demands, unmet, None, lost)

    def _scenario(
        self,
        name: str,
        hops: list[int],
        demands: set[int],
        unmet: list[int],
        lost_zone: int | None,
        lost_instances: set[tuple[int, int]],
    ) -> None:
        """Flows after a loss. Their traffic is not charged: losses are rare and short."""
        program, keep = self._program, self._settings.survive_share
        if keep <= 0:  # nothing need survive, and a row of zeros would only cost time
            return
        served = {d: program.row(f"{name}/{self._routing.demands[d].key}", keep, INFINITY) for d in sorted(demands)}
        for d, row in served.items():
            program.put(row, unmet[d], keep)
        rows: dict[tuple[int, int], int] = {}
        variables = {h: program.variable(0.0, 1.0) for h in hops}
        for h, variable in variables.items():
            hop = self._routing.hops[h]
            if hop.enters:
                program.put(served[hop.demand], variable, 1.0)
            for k, place, share in hop.load:
                if (k, place) not in rows:
                    rows[k, place] = program.row(f"{name}/{self._label(k, place)}", 0.0, INFINITY)
                program.put(rows[k, place], variable, -share)
        self._balance_rows(variables)
        for (k, place), row in rows.items():
            for g in np.flatnonzero((self._group_place == place) & (self._supply.group_zone != lost_zone)):
                self._classes.add(k * self._groups + g, row, 1.0)
            if (k, place) in lost_instances:
                if self._loss[k, place] < 0:
                    self._loss[k, place] = program.variable(0.0, self._largest)
                program.put(row, int(self._loss[k, place]), -1.0)

    def _running_rows(self, running: RunningColumns) -> tuple[Ints, Ints, Floats, Ints]:
        """Free what is kept of a running template from initialisation cost: kept ≤ running, kept ≤ planned."""
        key = running.template * self._groups + running.group
        order = np.argsort(key)
        rows, kept = np.zeros(len(order), dtype=np.int64), np.zeros(len(order), dtype=np.int64)
        init = self._settings.init_factor + self._columns.more_init[running.template]
        saved = init * self._columns.rent(running.template, running.group)
        for position, i in enumerate(order):
            rows[position] = self._program.row(f"running/{int(key[i])}", -INFINITY, 0.0)
            kept[position] = self._program.variable(-float(saved[i]), float(running.count[i]))
            self._program.put(int(rows[position]), int(kept[position]), 1.0)
        return key[order], rows, running.count[order], kept

    def _beside_rows(self, key: Ints, kept: Ints) -> None:
        """Nodes of what is new fit what can be had beside those held: Σ nodes · (planned − kept) ≤ more."""
        supply, library = self._supply, self._columns.library
        more = np.zeros(supply.bound.shape)
        np.add.at(more, (supply.offer_config, supply.offer_group), supply.offer_bound - supply.offer_held)
        for c, g in np.argwhere(supply.bound > 0):
            zone, market = supply.groups[g]
            row = self._program.row(f"beside/{supply.configs[c]}@{zone}/{market.value}", -INFINITY, float(more[c, g]))
            self._cells.add(c * self._groups + g, row, 1.0)
            for i in np.flatnonzero(key % self._groups == g):
                nodes = int(library.nodes[key[i] // self._groups, c])
                if nodes:
                    self._program.put(row, int(kept[i]), -float(nodes))

    def _levels(self, unmet: list[int], shortage: list[int]) -> tuple[Level, ...]:
        demands = self._routing.demands
        levels = []
        for priority in sorted({d.priority for d in demands}, reverse=True):
            of_level = [i for i, d in enumerate(demands) if d.priority == priority]
            weights = {unmet[i]: demands[i].requests_per_s for i in of_level}
            levels.append(self._level(f"unmet/{priority}", weights))
        if shortage:
            levels.append(self._level("unmet/replicas", dict.fromkeys(shortage, 1.0)))
        return tuple(levels)

    def _level(self, name: str, weights: dict[int, float]) -> Level:
        row = self._program.row(name, -INFINITY, INFINITY)
        for variable, weight in weights.items():
            self._program.put(row, variable, weight)
        return Level(row, tuple(weights), tuple(weights.values()))
