"""A small integer program, built column by column and solved by HiGHS. For policies; the allocator has its own."""

from dataclasses import dataclass

import highspy
import numpy as np
from numpy.typing import NDArray

_MOST_NODES = 5_000
"""Most nodes of a search tree: where the gap is not reached, the same work on every machine."""


@dataclass(frozen=True, slots=True, eq=False)
class Optimum:
    """A best solution that was found."""

    values: NDArray[np.float64]
    """(columns,)"""
    objective: float
    bound: float
    """No solution is below it."""


@dataclass(frozen=True, slots=True, eq=False)
class Relaxed:
    """The optimum where no column has to be whole."""

    values: NDArray[np.float64]
    """(columns,)"""
    duals: NDArray[np.float64]
    """(rows,) in their order: what the objective rises by where a row's limit does, by one."""
    objective: float


class IntegerProgram:
    """Minimise a linear cost over columns in [0, upper] under linear rows. Mutable, private to one run."""

    def __init__(self, *, seed: int = 0, gap: float = 1e-3) -> None:
        self._costs: list[float] = []
        self._uppers: list[float] = []
        self._integer: list[bool] = []
        self._rows: list[tuple[dict[int, float], float, float]] = []
        self._options = {
            "output_flag": False,
            "random_seed": seed,
            "mip_rel_gap": gap,
            "mip_max_nodes": _MOST_NODES,
            "threads": 1,
        }

    def add(self, cost: float, *, upper: float, integer: bool = True) -> int:
        """A new column; returns its index."""
        self._costs.append(cost)
        self._uppers.append(upper)
        self._integer.append(integer)
        return len(self._costs) - 1

    def require(self, row: dict[int, float], *, lower: float = -np.inf, upper: float = np.inf) -> None:
        """Require lower ≤ Σ row[column] · column ≤ upper."""
        self._rows.append((row, lower, upper))

    def minimise(self) -> NDArray[np.float64]:
        """Values of all columns at the best solution found.

        Raises:
            RuntimeError: there is none (callers give every program a solution by letting demand go unmet).
        """
        return self.optimum().values

    def optimum(self) -> Optimum:
        """The best solution found, with a bound. Raises RuntimeError as `minimise` does."""
        if not self._costs:
            return Optimum(np.zeros(0), 0.0, 0.0)
        highs = self._solved(self._lp())
        found = highs.getInfo()
        bound = found.mip_dual_bound if any(self._integer) else found.objective_function_value
        return Optimum(np.asarray(highs.getSolution().col_value), found.objective_function_value, bound)

    def relaxed(self) -> Relaxed:
        """The optimum of the linear relaxation. Raises RuntimeError as `minimise` does."""
        lp = self._lp()
        lp.integrality_ = []
        highs = self._solved(lp)
        solution = highs.getSolution()
        values, duals = np.asarray(solution.col_value), np.asarray(solution.row_dual)
        return Relaxed(values, duals, highs.getInfo().objective_function_value)

    def _solved(self, lp: highspy.HighsLp) -> highspy.Highs:
        highs = highspy.Highs()
        for name, value in self._options.items():
            highs.setOptionValue(name, value)
        highs.passModel(lp)
        highs.run()
        if not highs.getSolution().value_valid:
            msg = f"HiGHS found no solution of a policy's program: {highs.modelStatusToString(highs.getModelStatus())}"
            raise RuntimeError(msg)
        return highs

    def _lp(self) -> highspy.HighsLp:
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = len(self._costs), len(self._rows)
        lp.col_cost_ = np.array(self._costs)
        lp.col_lower_ = np.zeros(len(self._costs))
        lp.col_upper_ = np.array(self._uppers, dtype=float)
        lp.row_lower_ = np.array([r[1] for r in self._rows], dtype=float)
        lp.row_upper_ = np.array([r[2] for r in self._rows], dtype=float)
        lp.integrality_ = [
            highspy.HighsVarType.kInteger if i else highspy.HighsVarType.kContinuous for i in self._integer
        ]
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = np.cumsum([0] + [len(r[0]) for r in self._rows])
        lp.a_matrix_.index_ = np.array([c for r in self._rows for c in r[0]], dtype=np.int32)
        lp.a_matrix_.value_ = np.array([v for r in self._rows for v in r[0].values()], dtype=float)
        return lp
