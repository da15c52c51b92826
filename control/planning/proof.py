"""Status and gap of a plan in words: a plan that met the solver's tolerance is not yet an optimum."""

import math

_ROUNDING = 1e-6
"""Gap that solvers leave where there is none: their feasibility tolerance."""


def proof_text(status: str, gap: float, tolerance: float | None = None) -> str:
    """Say how near the least cost a plan is known to be: `optimal` only where nothing is left between cost and bound.

    `status` and `gap` are the plan's own, `tolerance` is the gap at which the search for it could end (`solver.gap`),
    where that is known. Gaps are rounded up to a hundredth of a percent: what is said is proven.
    """
    if gap >= 1:  # a heuristic's
        return "partial, nothing proven" if status == "partial" else "nothing proven"
    exact = gap <= _ROUNDING
    near = f"within {math.ceil(1e4 * gap - 1e-6) / 1e4:.2%}"
    if status == "partial":
        return f"partial, {'at' if exact else f'{near} of'} the least cost of what it serves"
    if exact:
        return "optimal"
    said = [] if tolerance is None else [f"tolerance {100 * tolerance:g}%"]
    if status == "feasible":
        said = [f"{' '.join(said) or 'tolerance'} not met"]
    return f"{near} of the optimum" + (f" ({said[0]})" if said else "")
