"""The reference optimum of a bag of nodes: one ILP for every number of stages, as Coral (section 4.2) solves them."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from bench.placement_oracles.outcome import Outcome
from bench.placement_oracles.placement_ilp import PlacementIlp, placement_ilp

BETTER = 1e-7
"""A deeper pipeline is only looked for if it serves more by this share; solvers cannot tell less apart."""

SolveIlp = Callable[[PlacementIlp, NDArray[np.float64], float], Outcome]
"""(ILP, T̂ it was made of, time limit in seconds)"""


def reference_optimum(
    units_per_s: NDArray[np.float64], nodes: tuple[int, ...], solve: SolveIlp, time_limit_s: float
) -> Outcome:
    """The best placement of `nodes` over all depths. `units_per_s` as in `placement_ilp`.

    Each depth has `time_limit_s`. Unless all were proven, the status is that of the first that was not.
    """
    best, bound, unproven = 0.0, 0.0, ""
    for stages in range(1, min(len(nodes), units_per_s.shape[3]) + 1):
        outcome = solve(placement_ilp(units_per_s, nodes, stages, best * (1 + BETTER)), units_per_s, time_limit_s)
        best = max(best, outcome.units_per_s)
        if outcome.units_per_s > 0 or not outcome.proven:
            bound = max(bound, outcome.bound_units_per_s)
        if not outcome.proven:
            unproven = unproven or f"{outcome.status} at {stages} stages"
    return Outcome(best, max(best, bound), not unproven, unproven or "Optimal")
