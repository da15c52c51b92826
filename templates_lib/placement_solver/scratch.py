"""Working memory of the placement kernels, allocated once per thread and not per bag."""

from typing import NamedTuple

import numpy as np

from templates_lib.placement_solver.compiled import Floats, Ints, compiled


class Scratch(NamedTuple):
    """Working arrays for bags of up to 8 nodes (256 codes) and B budgets; a stage's row is its place in the
    pipeline."""

    reach: Ints
    """(3 roles, 256 codes, B): J(t), the most layers that a block carries above a threshold."""
    reach_at: Floats
    """(3, 256): the threshold of that row of `reach`; -1: none yet."""
    widest: Ints
    """(256,): J of a block as a middle stage with the largest budget that a stage can have."""
    codes: Ints
    """(8,) block of each stage."""
    layers: Ints
    """(8,)"""
    budgets: Ints
    """(8,) index of each stage's budget."""
    values: Floats
    """(8,) units/s of each stage."""
    knapsack: Ints
    """(2, B + 1): most layers within so many ticks, before and after a stage."""
    choice: Ints
    """(8, B + 1): ticks of the stage in that optimum."""


@compiled
def make_scratch(budgets: int) -> Scratch:
    return Scratch(
        np.empty((3, 256, budgets), dtype=np.int64),
        np.empty((3, 256), dtype=np.float64),
        np.empty(256, dtype=np.int64),
        np.empty(8, dtype=np.int64),
        np.empty(8, dtype=np.int64),
        np.empty(8, dtype=np.int64),
        np.empty(8, dtype=np.float64),
        np.empty((2, budgets + 1), dtype=np.int64),
        np.empty((8, budgets + 1), dtype=np.int64),
    )
