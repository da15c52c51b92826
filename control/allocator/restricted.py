"""A mixed-integer program over the frame and a chosen set of columns."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from control.allocator.columns import Floats, Ints, PickedColumns
from control.allocator.problem import AllocationProblem
from control.allocator.program import Program, Start, join
from control.allocator.rows import SparseMatrix, Variables, compress

Entries = tuple[Ints, Ints, Floats]
"""(variable, row, coefficient) of matrix entries."""


@dataclass(frozen=True, slots=True, eq=False)
class Restricted:
    """Variables: the frame's, one per picked column, one per (template, group) of several points, survival's."""

    program: Program
    picked: PickedColumns
    first_column: int
    """Index of the first picked column's variable."""
    key: Ints
    """Template · G + group of every picked column."""
    shared_key: Ints
    """The same for (template, group) pairs of several points; their count variables follow the columns'."""

    @property
    def first_count(self) -> int:
        return self.first_column + len(self.picked)

    def mixture(self, x: Floats) -> Floats:
        """Instances at each picked column's point."""
        return x[self.first_column : self.first_count]

    def start(self, counts: dict[int, int]) -> Start:
        """A point to begin with: these counts, as far as their columns are here."""
        single = ~np.isin(self.key, self.shared_key)
        variables = [self.first_column + np.flatnonzero(single), self.first_count + np.arange(len(self.shared_key))]
        keys = np.concatenate([self.key[single], self.shared_key])
        return np.concatenate(variables), np.array([float(counts.get(int(k), 0)) for k in keys])

    def counts(self, x: Floats) -> dict[int, int]:
        """Instances by template · G + group; zeros left out."""
        single = ~np.isin(self.key, self.shared_key)
        y = np.rint(self.mixture(x)).astype(np.int64)
        counts = {int(k): int(n) for k, n in zip(self.key[single], y[single], strict=True) if n > 0}
        n = np.rint(x[self.first_count : self.first_count + len(self.shared_key)]).astype(np.int64)
        counts.update({int(k): int(c) for k, c in zip(self.shared_key, n, strict=True) if c > 0})
        return counts


def restrict_to(
    problem: AllocationProblem, picked: PickedColumns, row_upper: Floats, base_cost: Floats, *, cost: bool
) -> Restricted:
    """The program over `picked`; `base_cost` is the objective of the frame's variables.

    All points of a template must be picked for a group, or none.
    """
    frame, columns = problem.frame, problem.columns
    groups = len(problem.supply.groups)
    template = columns.library.point_template[picked.point]
    key = template * groups + picked.group
    single = columns.single_point[template]
    shared = np.unique(key[~single])
    most = columns.most(template, picked.group)
    variables = Variables(
        frame.cost(columns, picked) if cost else np.zeros(len(picked)),
        np.zeros(len(picked)),
        most,
        single,
        frame.matrix(columns, picked),
    )
    base = frame.variables
    own = Variables(base_cost, base.lower, base.upper, base.integer, base.matrix)
    program = Program(join(own, variables), frame.row_lower, row_upper)
    program = _count_points(program, len(base), key, shared)
    program = _link_losses(problem, program, picked, key, most)
    return Restricted(program, picked, len(base), key, shared)


def _count_points(program: Program, first: int, key: Ints, shared: Ints) -> Program:
    """A whole number of instances for every (template, group) whose points share them."""
    if not len(shared):
        return program
    at = np.searchsorted(shared, key)
    mine = np.flatnonzero(shared[np.minimum(at, len(shared) - 1)] == key)
    count = np.arange(len(shared))
    entries: list[Entries] = [
        (len(program.variables) + count, count, np.ones(len(shared))),
        (first + mine, at[mine], np.full(len(mine), -1.0)),
    ]
    most = np.zeros(len(shared))
    most[at[mine]] = program.variables.upper[first + mine]
    ones = np.ones(len(shared), dtype=bool)
    return _extend(program, most, ones, np.zeros(len(shared)), np.zeros(len(shared)), entries)


def _link_losses(
    problem: AllocationProblem, program: Program, picked: PickedColumns, key: Ints, most: Floats
) -> Program:
    """The largest loss of a class in a place is at least the capacity of every template used there.

    `used` is 1 where a (template, group) has an instance: y ≤ most · used, loss ≥ units · used.
    """
    loss = problem.frame.loss_variables
    if not (loss >= 0).any() or not len(picked):  # no loss of an instance has to be survived
        return program
    columns, place = problem.columns, problem.group_place
    first = len(problem.frame.variables)
    unique, of = np.unique(key, return_inverse=True)
    used = len(program.variables) + np.arange(len(unique))
    owner, entry = columns.entries(picked.point)
    variable = loss[columns.entry_class[entry], place[picked.group[owner]]]
    kept = np.flatnonzero(variable >= 0)
    links, losses = np.arange(len(picked)), len(picked) + np.arange(len(kept))
    entries: list[Entries] = [
        (first + links, links, np.full(len(links), -1.0)),
        (used[of], links, most),
        (variable[kept], losses, np.ones(len(kept))),
        (used[of[owner[kept]]], losses, -columns.units[entry[kept]]),
    ]
    rows = len(links) + len(kept)
    upper = np.full(rows, np.inf)
    return _extend(program, np.ones(len(unique)), np.ones(len(unique), bool), np.zeros(rows), upper, entries)


def _extend(
    program: Program,
    upper: Floats,
    integer: NDArray[np.bool_],
    row_lower: Floats,
    row_upper: Floats,
    entries: list[Entries],
) -> Program:
    """The program with more variables (cost 0) and more rows; `entries` are (variable, new row, coefficient)."""
    old = program.variables
    columns, rows = len(old) + len(upper), len(program.row_lower) + len(row_lower)
    parts: list[Entries] = [(old.matrix.owner, old.matrix.row.astype(np.int64), old.matrix.value)]
    parts += [(variable, row + len(program.row_lower), value) for variable, row, value in entries]
    owners, at, values = (np.concatenate(p) for p in zip(*parts, strict=True))
    matrix: SparseMatrix = compress(columns, rows, owners, at, values)
    zeros = np.zeros(len(upper))
    return Program(
        Variables(
            np.concatenate([old.cost, zeros]), np.concatenate([old.lower, zeros]),
            np.concatenate([old.upper, upper]), np.concatenate([old.integer, integer]), matrix,
        ),
        np.concatenate([program.row_lower, row_lower]),
        np.concatenate([program.row_upper, row_upper]),
    )  # fmt: skip
