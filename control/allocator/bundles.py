"""Prices for what demands share, from bundles of instances that each serve one block.

Dantzig-Wolfe: a linear program over the bundles seen so far gives the prices at which new ones are asked for.
"""

import numpy as np

from control.allocator.columns import Floats, Ints, PickedColumns
from control.allocator.decomposition import Choice, Decomposition
from control.allocator.highs import GrowingLp, Vertex
from control.allocator.problem import AllocationProblem
from control.allocator.program import Program, join
from control.allocator.rows import Variables, compress


class Bundles:
    def __init__(
        self, problem: AllocationProblem, decomposition: Decomposition, row_upper: Floats, penalty: float, seed: int
    ) -> None:
        """`penalty`: cost of leaving a block to nobody, far above what serving it can cost."""
        self._problem, self._decomposition = problem, decomposition
        self._blocks = {block: i for i, block in enumerate(decomposition.blocks)}
        frame = problem.frame
        self._frame_rows = len(frame.row_names)
        rows = self._frame_rows + len(self._blocks)
        shared = decomposition.is_shared
        ones = np.ones(len(self._blocks))
        lower = np.concatenate([np.where(shared, frame.row_lower, -np.inf), ones])
        upper = np.concatenate([np.where(shared, row_upper, np.inf), ones])
        block_rows = self._frame_rows + np.arange(len(self._blocks))
        nobody = Variables(
            penalty * ones, 0.0 * ones, ones, np.zeros(len(ones), bool),
            compress(len(ones), rows, np.arange(len(ones)), block_rows, ones),
        )  # fmt: skip
        self._rows = rows
        self._lp = GrowingLp(Program(join(self._shared_variables(), nobody), lower, upper), seed)
        self._choices: list[Choice] = []
        self._seen: set[tuple[object, ...]] = set()

    def _shared_variables(self) -> Variables:
        """The frame's variables that no block owns."""
        base = self._problem.frame.variables
        wanted = self._decomposition.shared_variables
        owner = base.matrix.owner
        position = np.full(len(base), -1, dtype=np.int64)
        position[wanted] = np.arange(len(wanted))
        keep = position[owner] >= 0
        row = base.matrix.row[keep].astype(np.int64)
        matrix = compress(len(wanted), self._rows, position[owner[keep]], row, base.matrix.value[keep])
        return Variables(base.cost[wanted], base.lower[wanted], base.upper[wanted], base.integer[wanted], matrix)

    def add(self, choices: list[Choice]) -> bool:
        """Add bundles and tell whether any of them is new."""
        fresh = []
        for choice in choices:
            key = (choice.block, tuple(sorted(choice.instances.items())), choice.hops)
            if key not in self._seen:
                self._seen.add(key)
                fresh.append(choice)
        if fresh:
            self._choices.extend(fresh)
            self._lp.add(self._variables(fresh))
        return bool(fresh)

    def _variables(self, choices: list[Choice]) -> Variables:
        """Bundles as columns: what they cost, what they take of the shared rows, and the one block that each serves."""
        problem, frame, columns = self._problem, self._problem.frame, self._problem.columns
        pairs = [(i, c, n) for i, choice in enumerate(choices) for c, n in sorted(choice.instances.items())]
        of, column, count = np.array(pairs, dtype=np.int64).reshape(-1, 3).T
        examined = self._decomposition.examined
        picked = PickedColumns(examined.point[column], examined.group[column], np.zeros(len(column)))
        key = columns.library.point_template[picked.point] * len(problem.supply.groups) + picked.group
        cost = frame.cost(columns, picked) * count - self._lent_back(key, count)
        total = np.bincount(of, weights=cost, minlength=len(choices)).astype(np.float64)
        matrix = frame.matrix(columns, picked)
        entry = matrix.owner
        shared = self._decomposition.is_shared[matrix.row]
        parts: list[tuple[Ints, Ints, Floats]] = [
            (of[entry[shared]], matrix.row[shared].astype(np.int64), (matrix.value * count[entry])[shared]),
            (
                np.arange(len(choices)),
                np.array([self._frame_rows + self._blocks[c.block] for c in choices], dtype=np.int64),
                np.ones(len(choices)),
            ),
        ]
        for i, choice in enumerate(choices):
            for hop, share in choice.hops:
                variable = frame.hop_variables[hop]
                a, b = frame.variables.matrix.start[variable], frame.variables.matrix.start[variable + 1]
                row = frame.variables.matrix.row[a:b].astype(np.int64)
                mine = self._decomposition.is_shared[row]
                value = share * frame.variables.matrix.value[a:b][mine]
                parts.append((np.full(int(mine.sum()), i), row[mine], value))
        owner, row, value = (np.concatenate(p) for p in zip(*parts, strict=True))
        zeros = np.zeros(len(choices))
        bundle = compress(len(choices), self._rows, owner, row, value)
        return Variables(total, zeros, np.full(len(choices), np.inf), np.zeros(len(choices), dtype=bool), bundle)

    def _lent_back(self, key: Ints, count: Ints) -> Floats:
        """Initialisation that kept instances do not cost."""
        frame = self._problem.frame
        if not len(frame.running_key):
            return np.zeros(len(key))
        at = np.minimum(np.searchsorted(frame.running_key, key), len(frame.running_key) - 1)
        runs = frame.running_key[at] == key
        saved = -frame.variables.cost[frame.kept_variables[at]]
        return np.where(runs, np.minimum(count, frame.running_count[at]) * saved, 0.0)

    def solve(self) -> tuple[Vertex, Floats]:
        """The best mixture of bundles, and its prices on the frame's rows."""
        vertex = self._lp.solve()
        if vertex is None:
            raise RuntimeError(
                "the program over bundles is infeasible although blocks may stay unserved; please report this"
            )
        return vertex, vertex.row_dual[: self._frame_rows].copy()

    def columns(self) -> Ints:
        """Every examined column that some bundle uses."""
        return np.array(sorted({c for choice in self._choices for c in choice.instances}), dtype=np.int64)
