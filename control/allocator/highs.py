"""HiGHS: the linear program that columns are added to, and the default solver of mixed-integer programs."""

from dataclasses import dataclass
from typing import Any

import highspy
import numpy as np

from control.allocator.columns import Floats
from control.allocator.program import Effort, Found, MilpSolution, Program, Start
from control.allocator.rows import SparseMatrix, Variables

INTEGER = highspy.HighsVarType.kInteger
CONTINUOUS = highspy.HighsVarType.kContinuous
STATUS = highspy.HighsModelStatus
SEARCHES = ("mip_heuristic_run_root_reduced_cost", "mip_heuristic_run_rins", "mip_heuristic_run_rens")
"""Its programs within the program, which take up to half of the iterations."""
FEASIBILITY = 1e-7
"""Tolerance of rows, which are scaled to the whole demand: a ten-millionth of it."""


def _solver(seed: int) -> highspy.Highs:
    """One thread and a fixed seed: the same program gives the same answer."""
    highs = highspy.Highs()
    for option, value in (("output_flag", False), ("threads", 1), ("random_seed", seed % 2**31)):
        highs.setOptionValue(option, value)
    return highs


def _model(program: Program) -> highspy.HighsLp:
    variables, lp = program.variables, highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(variables), len(program.row_lower)
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = variables.cost, variables.lower, variables.upper
    lp.row_lower_, lp.row_upper_ = program.row_lower, program.row_upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_ = variables.matrix.start
    lp.a_matrix_.index_, lp.a_matrix_.value_ = variables.matrix.row, variables.matrix.value
    if variables.integer.any():
        lp.integrality_ = [INTEGER if whole else CONTINUOUS for whole in variables.integer]
    return lp


@dataclass(frozen=True, slots=True, eq=False)
class Vertex:
    """An optimum of the linear program with its duals."""

    objective: float
    x: Floats
    row_dual: Floats
    reduced_cost: Floats


class GrowingLp:
    """A linear program that keeps its basis while columns are added and costs change."""

    def __init__(self, program: Program, seed: int) -> None:
        self._highs = _solver(seed)
        self._highs.setOptionValue("solver", "simplex")
        lp = _model(program)
        lp.integrality_ = []  # nodes of an offer are whole; here they are relaxed like everything else
        self._highs.passModel(lp)
        self.columns = len(program.variables)

    @property
    def iterations(self) -> int:
        return int(self._highs.getInfo().simplex_iteration_count)

    def add(self, variables: Variables) -> None:
        matrix: SparseMatrix = variables.matrix
        if len(variables):
            self._highs.addCols(
                len(variables), variables.cost, variables.lower, variables.upper,
                len(matrix.row), matrix.start[:-1], matrix.row, matrix.value,
            )  # fmt: skip
            self.columns += len(variables)

    def set_costs(self, cost: Floats) -> None:
        self._highs.changeColsCost(len(cost), np.arange(len(cost), dtype=np.int32), cost)

    def set_row(self, row: int, lower: float, upper: float) -> None:
        self._highs.changeRowBounds(int(row), float(lower), float(upper))

    def solve(self) -> Vertex | None:
        """The optimum, or None where the program is infeasible. RuntimeError when HiGHS fails."""
        self._highs.run()
        status = self._highs.getModelStatus()
        if status == STATUS.kInfeasible:
            return None
        if status not in (STATUS.kOptimal, STATUS.kModelEmpty):
            raise RuntimeError(f"HiGHS stopped the linear program with {self._highs.modelStatusToString(status)}")
        solution = self._highs.getSolution()
        return Vertex(
            float(self._highs.getInfo().objective_function_value),
            np.array(solution.col_value),
            np.array(solution.row_dual),
            np.array(solution.col_dual),
        )


class HighsMilp:
    """HiGHS' branch and bound, stopped by counts of work."""

    name = "HiGHS"

    def __call__(self, program: Program, effort: Effort, start: Start | None, found: Found) -> MilpSolution:
        highs = _solver(effort.seed)
        highs.setOptionValue("mip_rel_gap", effort.gap)
        highs.setOptionValue("mip_max_nodes", effort.nodes)
        highs.setOptionValue("mip_feasibility_tolerance", FEASIBILITY)
        highs.setOptionValue("primal_feasibility_tolerance", FEASIBILITY)
        if not effort.looks_for_plans:
            for option in SEARCHES:
                highs.setOptionValue(option, False)
            highs.setOptionValue("mip_heuristic_effort", 0.0)
        if effort.seconds is not None:
            highs.setOptionValue("time_limit", max(0.0, effort.seconds))

        def stop(event: Any) -> None:
            if event.data_out.simplex_iteration_count > effort.simplex_iterations:
                event.interrupt()

        def improved(event: Any) -> None:
            found(float(event.data_out.objective_function_value))

        highs.cbMipInterrupt += stop
        highs.cbMipImprovingSolution += improved
        highs.passModel(_model(program))
        if start is not None:
            highs.setSolution(len(start[0]), start[0].astype(np.int32), start[1])
        highs.run()
        return _answer(highs)


def _answer(highs: highspy.Highs) -> MilpSolution:
    status, info = highs.getModelStatus(), highs.getInfo()
    nodes, iterations = max(0, int(info.mip_node_count)), int(info.simplex_iteration_count)
    seconds, late = float(highs.getRunTime()), status == STATUS.kTimeLimit
    if status in (STATUS.kInfeasible, STATUS.kUnboundedOrInfeasible):
        return MilpSolution(None, np.inf, np.inf, True, nodes, iterations, seconds, late)
    if status == STATUS.kModelEmpty:  # nobody asks for anything
        return MilpSolution(np.zeros(0), 0.0, 0.0, True, nodes, iterations, seconds, late)
    has_point = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    x = np.array(highs.getSolution().col_value) if has_point else None
    objective = float(info.objective_function_value) if has_point else np.inf
    return MilpSolution(
        x, objective, float(info.mip_dual_bound), status == STATUS.kOptimal, nodes, iterations, seconds, late
    )
