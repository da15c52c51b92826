"""Small mixed-integer programs by HiGHS."""

from dataclasses import dataclass

import highspy
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
GAP = 1e-9
"""Relative gap at which a search ends: programs here are small, and are solved to the end."""


@dataclass(frozen=True, slots=True, eq=False)
class SmallProgram:
    """min cost · x with row_lower ≤ rows · x ≤ row_upper, 0 ≤ x, some of x whole. Coefficients should be near 1."""

    cost: Floats
    """(n,)"""
    rows: Floats
    """(m, n), dense."""
    row_lower: Floats
    row_upper: Floats
    integer: NDArray[np.bool_]
    """(n,)"""


@dataclass(frozen=True, slots=True, eq=False)
class Optimum:
    x: Floats
    objective: float
    row_dual: Floats
    """(m,) change of the objective with each row's bound; zeros where some of x are whole."""


def optimum(program: SmallProgram) -> Optimum | None:
    """The optimum; None: nothing satisfies the rows. Raises RuntimeError where HiGHS says neither."""
    highs = highspy.Highs()
    for option, value in (("output_flag", False), ("threads", 1), ("random_seed", 0), ("mip_rel_gap", GAP)):
        highs.setOptionValue(option, value)
    highs.setOptionValue("mip_abs_gap", GAP)
    lp = highspy.HighsLp()
    count, height = len(program.cost), len(program.row_lower)
    lp.num_col_, lp.num_row_ = count, height
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = program.cost, np.zeros(count), np.full(count, highspy.kHighsInf)
    lp.row_lower_, lp.row_upper_ = program.row_lower, program.row_upper
    column, row = np.nonzero(program.rows.T)
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_ = np.searchsorted(column, np.arange(count + 1)).astype(np.int32)
    lp.a_matrix_.index_, lp.a_matrix_.value_ = row.astype(np.int32), program.rows[row, column]
    if program.integer.any():
        kinds = highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger
        lp.integrality_ = [kinds[int(whole)] for whole in program.integer]
    highs.passModel(lp)
    highs.run()
    status = highs.getModelStatus()
    if status == highspy.HighsModelStatus.kInfeasible:
        return None
    if status != highspy.HighsModelStatus.kOptimal:
        raise RuntimeError(f"HiGHS ended with {highs.modelStatusToString(status)} on a program of {count} variables")
    solution = highs.getSolution()
    dual = np.array(solution.row_dual) if solution.dual_valid else np.zeros(height)
    return Optimum(np.array(solution.col_value), float(highs.getInfo().objective_function_value), dual)
