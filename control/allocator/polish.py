"""Better plans near a known one: a few demands at a time are planned anew, the others stay as they are."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from control.allocator.columns import Ints
from control.allocator.problem import AllocationProblem
from control.allocator.program import MilpSolution, Program, Start
from control.allocator.restricted import Restricted
from templates_lib.values.settings import Mode

WIDTHS = (2, 3, 4)
"""Units planned anew at once: narrow neighbourhoods first, wider ones when a whole pass found nothing."""
PASSES = 2
"""Passes at most over the units at each width."""
MOST_SOLVED = 100
"""Neighbourhoods at most, so that many units do not take many times as long."""
LEAST_GAIN = 1e-6

Solver = Callable[[Program, Start], MilpSolution | None]
"""None when there is no more work to be spent."""


def polish(
    problem: AllocationProblem, restricted: Restricted, counts: dict[int, int], objective: float, target: float,
    seed: int, solve: Solver, found: Callable[[dict[int, int], float], None],
) -> None:  # fmt: skip
    """Reports every better plan to `found`; stops at `target` or when the widest neighbourhoods hold nothing better.

    A unit is a work class, or with zones a whole demand, since its classes have to move together.
    """
    unit = _unit_of(problem, restricted)
    many = int(unit.max(initial=-1)) + 1
    rng, solved = np.random.default_rng(seed), 0
    for width in sorted({min(width, many) for width in WIDTHS}):
        for _ in range(PASSES):
            order, gained = rng.permutation(many), False
            for first in range(many):
                if solved == MOST_SOLVED:  # counted, not timed: the same plan on any machine
                    return
                solved += 1
                free = order[(first + np.arange(width)) % many]
                answer = solve(_fixed(restricted, counts, ~np.isin(unit, free)), restricted.start(counts))
                if answer is None:  # the solve as a whole is out of work: what was found stands
                    return
                if answer.x is not None and answer.objective < objective * (1 - LEAST_GAIN):
                    counts, objective, gained = restricted.counts(answer.x), answer.objective, True
                    found(counts, objective)
                    if objective <= target:
                        return
            if not gained:  # other orders of this width would find as little: widen
                break


def units(problem: AllocationProblem) -> int:
    """Return the number of units that move by themselves."""
    if problem.snapshot.settings.mode is Mode.PAPER:
        return problem.columns.classes
    return len({tree.demand for tree in problem.routing.trees})


def _unit_of(problem: AllocationProblem, restricted: Restricted) -> Ints:
    columns = problem.columns
    of_class = columns.entry_class[columns.entry_start[restricted.picked.point]]
    if problem.snapshot.settings.mode is Mode.PAPER:
        return of_class
    demand = np.zeros(columns.classes, dtype=np.int64)
    for tree in problem.routing.trees:
        for k, _ in tree.load:
            demand[k] = tree.demand
    return demand[of_class]


def _fixed(restricted: Restricted, counts: dict[int, int], keep: NDArray[np.bool_]) -> Program:
    """The program with the kept columns at their counts (columns of one point each)."""
    variables = restricted.program.variables
    lower, upper = variables.lower.copy(), variables.upper.copy()
    at = restricted.first_column + np.flatnonzero(keep)
    lower[at] = upper[at] = [float(counts.get(int(k), 0)) for k in restricted.key[keep]]
    return replace(restricted.program, variables=replace(variables, lower=lower, upper=upper))
