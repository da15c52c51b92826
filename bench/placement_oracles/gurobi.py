"""Gurobi on the placement ILP, where it is installed and its licence is large enough."""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from bench.placement_oracles.outcome import Outcome
from bench.placement_oracles.placement_ilp import EQUAL, GREATER, LESS, PlacementIlp


def solve_with_gurobi(ilp: PlacementIlp, units: NDArray[np.float64], time_limit_s: float) -> Outcome:
    """Solve `ilp`; `units` is the T̂ it was made of. An optimum is proven to a relative gap of 1e-9.

    Raises ImportError without gurobipy, and gurobipy.GurobiError where the licence is too small.
    """
    import gurobipy

    with gurobipy.Env(params={"OutputFlag": 0, "Threads": 1}) as env, gurobipy.Model(env=env) as model:
        model.Params.MIPGap = 1e-9
        model.Params.MIPGapAbs = 1e-9
        model.Params.TimeLimit = time_limit_s
        kinds = np.array([gurobipy.GRB.CONTINUOUS] + [gurobipy.GRB.BINARY] * (ilp.variables - 1))
        least = np.concatenate([[ilp.least], np.zeros(ilp.variables - 1)])
        columns = model.addMVar(ilp.variables, lb=least, vtype=kinds)
        senses = {GREATER: gurobipy.GRB.GREATER_EQUAL, EQUAL: gurobipy.GRB.EQUAL, LESS: gurobipy.GRB.LESS_EQUAL}
        at, values = zip(*(cell for row in ilp.rows for cell in row.coefficients), strict=True)
        start = np.cumsum([0, *(len(row.coefficients) for row in ilp.rows)])
        matrix = csr_array((values, at, start), shape=(len(ilp.rows), ilp.variables))
        sense = np.array([senses[row.sense] for row in ilp.rows])
        model.addMConstr(matrix, columns, sense, np.array([row.rhs for row in ilp.rows]))
        model.setObjective(columns[0], gurobipy.GRB.MAXIMIZE)
        model.optimize()
        status = _STATUS.get(model.Status, f"status {model.Status}")
        if model.SolCount == 0:
            return Outcome(0.0, np.inf, status == "Infeasible", status)
        served = ilp.units_per_s(np.asarray(columns.X), units)
        return Outcome(served, model.ObjBound * ilp.scale, model.Status == gurobipy.GRB.OPTIMAL, status)


def solve_where_licensed(ilp: PlacementIlp, units: NDArray[np.float64], time_limit_s: float) -> Outcome | None:
    """As `solve_with_gurobi`; None without gurobipy, and where the licence is too small for `ilp`."""
    try:
        import gurobipy
    except ImportError:
        return None
    try:
        return solve_with_gurobi(ilp, units, time_limit_s)
    except gurobipy.GurobiError as error:
        if error.errno != gurobipy.GRB.Error.SIZE_LIMIT_EXCEEDED:
            raise
        return None


_STATUS = {2: "Optimal", 3: "Infeasible", 4: "Infeasible", 9: "Time limit reached"}
