"""The linear relaxation over all columns, by column generation."""

from dataclasses import dataclass

import numpy as np

from control.allocator.columns import Columns, Floats, PickedColumns, Prices, concatenate
from control.allocator.frame import ProgramFrame
from control.allocator.highs import GrowingLp, Vertex
from control.allocator.problem import AllocationProblem
from control.allocator.program import Program
from control.allocator.rows import Variables

FEW_COLUMNS = 3_000
"""Number of columns up to which all of them are in the program from the start."""
RELATIVE_TOLERANCE = 1e-7
"""Share of the objective: a column whose reduced cost is above minus this is not worth adding."""
DEAR = 1_000.0
"""Unmet demand costs this many times what serving everything costs at the best efficiency of each class."""
NOTHING = 1e-9
"""A share of demand that counts as none."""


@dataclass(frozen=True, slots=True, eq=False)
class Relaxed:
    """The optimum over all columns, as far as generation went."""

    vertex: Vertex
    picked: PickedColumns
    """The generated columns; their variables follow the frame's."""
    prices: Prices
    bound: float
    """Valid for every column, recomputed in float64."""


class Relaxation:
    """Solves the program under changing objectives and limits on unmet demand; columns and basis are kept."""

    def __init__(self, problem: AllocationProblem, seed: int) -> None:
        self._columns: Columns = problem.columns
        self._frame: ProgramFrame = problem.frame
        frame = self._frame
        self._lp = GrowingLp(Program(frame.variables, frame.row_lower.copy(), frame.row_upper.copy()), seed)
        self._picked: list[PickedColumns] = []
        self._costs: list[Floats] = []
        self._known: set[int] = set()
        self.rounds = 0
        self.iterations = 0
        self.row_upper = frame.row_upper.copy()
        efficiency = self._efficiency()
        self.dear = DEAR * max(1.0, float(efficiency.sum()))
        self._add(self._first(efficiency))

    @property
    def generated(self) -> int:
        return len(self._known)

    def limit(self, row: int, upper: float) -> None:
        """Hold a level of elastic variables at what has been reached."""
        self.row_upper[row] = upper
        self._lp.set_row(row, float(self._frame.row_lower[row]), upper)

    def minimise(self, elastic: dict[int, float], *, cost: bool) -> Relaxed:
        """The least cost plus weighted elastic variables, or (`cost` false) those alone."""
        frame = self._frame
        base = frame.variables.cost if cost else np.zeros(len(frame.variables))
        base = base.copy()
        for variable, weight in elastic.items():
            base[variable] += weight
        generated = np.concatenate(self._costs) if self._costs else np.zeros(0)
        self._lp.set_costs(np.concatenate([base, generated if cost else np.zeros(len(generated))]))
        while True:
            vertex = self._lp.solve()
            if vertex is None:
                raise RuntimeError("the relaxation is infeasible although demand may stay unmet; please report this")
            self.rounds += 1
            self.iterations += self._lp.iterations
            prices = frame.prices(vertex.row_dual, cost=cost)
            tolerance = RELATIVE_TOLERANCE * max(1.0, abs(vertex.objective))
            if self.generated == self.total or not self._add(self._columns.best(prices, -tolerance), free=not cost):
                break
        picked = concatenate(self._picked)
        return Relaxed(vertex, picked, prices, self._bound(base, vertex, cost=cost))

    @property
    def total(self) -> int:
        columns = self._columns
        if columns.plain:
            return int(columns.allowed.sum())
        return int(columns.allowed.sum(axis=1) @ np.diff(columns.template_start))

    def _add(self, picked: PickedColumns, *, free: bool = False) -> bool:
        """Add columns that are not in yet; whether there were any. `free`: with cost 0 for the present objective."""
        groups = self._columns.allowed.shape[1]
        key = picked.point * groups + picked.group
        new = np.array([i for i, k in enumerate(key.tolist()) if k not in self._known], dtype=np.int64)
        if not len(new):
            return False
        self._known.update(key[new].tolist())
        fresh = PickedColumns(picked.point[new], picked.group[new], picked.reduced_cost[new])
        cost = self._frame.cost(self._columns, fresh)
        self._picked.append(fresh)
        self._costs.append(cost)
        zeros, whole = np.zeros(len(new)), np.zeros(len(new), dtype=bool)
        matrix = self._frame.matrix(self._columns, fresh)
        self._lp.add(Variables(zeros if free else cost, zeros, np.full(len(new), np.inf), whole, matrix))
        return True

    def _efficiency(self) -> Floats:
        """(K,) the least cost of a class's whole peak load at the capacity of any one column."""
        frame, columns = self._frame, self._columns
        least = np.full(columns.classes, np.inf)
        groups = frame.cell_cost.shape[1]
        nothing = Prices(frame.cell_cost, frame.gib_cost, np.zeros((columns.classes, groups)), np.zeros(0), True)
        for first, cost in columns.chunks(nothing):
            point = np.arange(first, first + len(cost))
            owner, entry = columns.entries(point)
            cheapest = cost.min(axis=1, initial=np.inf)[owner].astype(np.float64)
            units = columns.units[entry]
            ratio = np.where(units > 0, cheapest / np.where(units > 0, units, 1.0), np.inf)
            np.minimum.at(least, columns.entry_class[entry], ratio)
        return np.where(np.isfinite(least), least, 0.0)

    def _first(self, efficiency: Floats) -> PickedColumns:
        """All columns when few; otherwise every running one and those near each class's best efficiency."""
        if self.total <= FEW_COLUMNS:
            return self._columns.all()
        frame, columns = self._frame, self._columns
        groups = frame.cell_cost.shape[1]
        value = np.repeat(1.1 * efficiency[:, None], groups, axis=1)
        near = columns.best(Prices(frame.cell_cost, frame.gib_cost, value, np.zeros(0), True), 0.0)
        template, group = frame.running_key // groups, frame.running_key % groups
        owner, point = columns.points_of(template)
        running = PickedColumns(point, group[owner], np.zeros(len(point)))
        return concatenate([running, near])

    def _bound(self, base: Floats, vertex: Vertex, *, cost: bool) -> float:
        """A Lagrangian bound at the vertex's duals: valid for whatever column generation and float32 left out.

        Duals of rows that capacity helps are scaled down until no column has a negative reduced cost; then
        Σ dual · row limit + Σ over the frame's variables of min(0, reduced cost) · upper bound is below every solution.
        """
        frame = self._frame
        dual = vertex.row_dual.copy()
        dual[np.isinf(frame.row_lower)] = np.minimum(dual[np.isinf(frame.row_lower)], 0.0)
        dual[np.isinf(self.row_upper)] = np.maximum(dual[np.isinf(self.row_upper)], 0.0)
        helped = np.zeros(len(dual), dtype=bool)
        helped[frame.classes.row] = helped[frame.counts.row] = True
        helped &= dual > 0
        dual[helped] *= self._scale(dual, cost=cost)
        reduced = base - frame.variables.matrix.dot(dual)
        limits = np.where(dual > 0, frame.row_lower, np.where(dual < 0, self.row_upper, 0.0))
        slack = np.where(reduced < 0, reduced * frame.variables.upper, 0.0)
        return float(dual @ limits + slack.sum())

    def _scale(self, dual: Floats, *, cost: bool) -> float:
        """The largest factor ≤ 1 on capacity's value at which no column pays for itself more than once."""
        frame, columns = self._frame, self._columns
        prices = frame.prices(dual, cost=cost)
        magnitude = float(np.abs(prices.cell).max(initial=0.0)) + float(np.abs(prices.class_value).max(initial=0.0))
        close = columns.under(prices, 1e-5 * magnitude + 1e-9)
        groups = frame.cell_cost.shape[1]
        template, group = frame.running_key // groups, frame.running_key % groups
        owner, point = columns.points_of(template)
        credit = np.concatenate([np.zeros(len(close)), dual[frame.running_row[owner]]])
        point = np.concatenate([close.point, point])
        group = np.concatenate([close.group, group[owner]])
        nothing = np.zeros_like(prices.class_value), np.zeros_like(prices.count_value)
        free = Prices(prices.cell, prices.gib, *nothing, cost)
        price = columns.reduced_costs(free, point, group)
        value = price - columns.reduced_costs(prices, point, group)
        price += credit
        worth = value > 0
        if not worth.any():
            return 1.0
        return float(np.clip((price[worth] / value[worth]).min(), 0.0, 1.0))
