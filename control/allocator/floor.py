"""What plans cost at least where flows between zones are so many that a program of whole instances proves little.

The linear relaxation serves every zone in part; what whole instances cost more shows without zones, in a program that
is searched within seconds (`gathered`).
"""

from dataclasses import replace
from math import inf

import numpy as np

from control.allocator.gathered import gathered
from control.allocator.problem import AllocationProblem, read_problem
from control.allocator.program import MilpSolver
from control.allocator.relaxation import NOTHING
from control.allocator.search import Search
from templates_lib.values.library import Library

COLUMNS, GAP = 150, 0.002
"""In the program for a first plan, and its tolerance: enough for a bound within the half per cent that zones cost."""


def floor(problem: AllocationProblem, library: Library, milp: MilpSolver, seconds: float | None) -> tuple[float, float]:
    """Return a bound on the objective of every plan that leaves nothing unmet, and the seconds that it took, of those
    that may be. It is -∞ where zones are more than places, and where some demand would stay unmet."""
    snapshot = gathered(problem.snapshot)
    if snapshot is None:
        return -inf, 0.0
    gap = max(GAP, snapshot.settings.limits.gap)
    limits = replace(snapshot.settings.limits, gap=gap, incumbent_columns=COLUMNS, wall_clock_s=seconds)
    without = read_problem(replace(snapshot, settings=replace(snapshot.settings, limits=limits)), library)
    search = Search(without, milp, lambda *_: None, np.zeros(0, np.int64))
    try:
        found = search.run()
    except ValueError:  # no plan within the seconds
        return -inf, search.seconds
    # Where demand stays unmet, the cost of serving less says nothing of plans that serve more.
    is_met = all(found.row_upper[level.row] <= 2 * NOTHING for level in without.frame.levels)
    return (found.bound if is_met else -inf), search.seconds
