"""HiGHS on the placement ILP."""

import highspy
import numpy as np
from numpy.typing import NDArray

from bench.placement_oracles.outcome import Outcome
from bench.placement_oracles.placement_ilp import EQUAL, GREATER, LESS, PlacementIlp


def solve_with_highs(ilp: PlacementIlp, units: NDArray[np.float64], time_limit_s: float) -> Outcome:
    """Solve `ilp`; `units` is the T̂ it was made of. An optimum is proven to a relative gap of 1e-9."""
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    solver.setOptionValue("mip_rel_gap", 1e-9)
    solver.setOptionValue("mip_abs_gap", 1e-9)
    solver.setOptionValue("time_limit", time_limit_s)
    solver.passModel(_model(ilp))
    solver.run()
    status, info = solver.getModelStatus(), solver.getInfo()
    if (
        not np.isfinite(info.mip_dual_bound)
        or info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible
    ):
        return Outcome(0.0, np.inf, status == highspy.HighsModelStatus.kInfeasible, solver.modelStatusToString(status))
    solution = np.array(solver.getSolution().col_value)
    return Outcome(
        ilp.units_per_s(solution, units),
        float(info.mip_dual_bound) * ilp.scale,
        status == highspy.HighsModelStatus.kOptimal,
        solver.modelStatusToString(status),
    )


def _model(ilp: PlacementIlp) -> highspy.HighsLp:
    infinity = highspy.kHighsInf
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = ilp.variables, len(ilp.rows)
    model.sense_ = highspy.ObjSense.kMaximize
    cost = np.zeros(ilp.variables)
    cost[0] = 1.0
    model.col_cost_ = cost
    model.col_lower_ = np.concatenate([[ilp.least], np.zeros(ilp.variables - 1)])
    model.col_upper_ = np.concatenate([[infinity], np.ones(ilp.variables - 1)])
    model.integrality_ = [highspy.HighsVarType.kContinuous] + [highspy.HighsVarType.kInteger] * (ilp.variables - 1)
    model.row_lower_ = np.array([row.rhs if row.sense in (GREATER, EQUAL) else -infinity for row in ilp.rows])
    model.row_upper_ = np.array([row.rhs if row.sense in (LESS, EQUAL) else infinity for row in ilp.rows])
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_ = np.cumsum([0, *(len(row.coefficients) for row in ilp.rows)], dtype=np.int32)
    model.a_matrix_.index_ = np.array([index for row in ilp.rows for index, _ in row.coefficients], dtype=np.int32)
    model.a_matrix_.value_ = np.array([value for row in ilp.rows for _, value in row.coefficients])
    return model
