"""A mixed-integer program as a value, its answer, and the port that a solver fills."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from control.allocator.columns import Floats, Ints
from control.allocator.rows import SparseMatrix, Variables


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """min cost · x with row_lower ≤ A x ≤ row_upper and the variables' bounds."""

    variables: Variables
    row_lower: Floats
    row_upper: Floats


@dataclass(frozen=True, slots=True)
class Effort:
    """Limits of a search; all but `seconds` count work."""

    gap: float
    nodes: int
    simplex_iterations: int
    seed: int
    seconds: float | None = None
    looks_for_plans: bool = True
    """Whether to look for better solutions beside those that the bound comes upon."""


@dataclass(frozen=True, slots=True, eq=False)
class MilpSolution:
    x: Floats | None
    """The best solution found, or None."""
    objective: float
    bound: float
    """No solution is cheaper; +∞ where there is none at all."""
    complete: bool
    """The gap target was met, or infeasibility proven."""
    nodes: int
    iterations: int
    seconds: float
    timed_out: bool


Start = tuple[Ints, Floats]
"""(variables, values) of a point to begin with; the solver completes it."""

Found = Callable[[float], None]
"""Called with the objective of every better solution while a search runs."""


class MilpSolver(Protocol):
    @property
    def name(self) -> str: ...

    def __call__(self, program: Program, effort: Effort, start: Start | None, found: Found) -> MilpSolution:
        """The best solution within the effort."""
        ...


def join(first: Variables, second: Variables) -> Variables:
    """Variables of the same rows, one after the other."""
    matrix = SparseMatrix(
        np.concatenate([first.matrix.start, second.matrix.start[1:] + first.matrix.start[-1]]).astype(np.int32),
        np.concatenate([first.matrix.row, second.matrix.row]),
        np.concatenate([first.matrix.value, second.matrix.value]),
    )
    return Variables(
        np.concatenate([first.cost, second.cost]),
        np.concatenate([first.lower, second.lower]),
        np.concatenate([first.upper, second.upper]),
        np.concatenate([first.integer, second.integer]),
        matrix,
    )
