"""The allocator: a snapshot and a library in, a plan out (docs/plans.md; Coral paper, section 4.3)."""

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from math import inf

from control.allocator.floor import floor
from control.allocator.highs import HighsMilp
from control.allocator.problem import read_problem
from control.allocator.program import MilpSolver
from control.allocator.report import make_plan, with_id
from control.allocator.search import Progress, Search
from control.allocator.settle import settle
from templates_lib.values.library import Library
from templates_lib.values.plan import Plan
from templates_lib.values.snapshot import Snapshot


def solve(
    snapshot: Snapshot,
    library: Library,
    *,
    policy: str = "medley",
    milp: MilpSolver | None = None,
    progress: Progress | None = None,
    clock: Callable[[], float] | None = None,
    known: Collection[Plan] = (),
    least: float = -inf,
) -> Plan:
    """The cheapest plan over the templates of `library` that leaves the least demand unmet.

    The same arguments give the same plan. `milp` is the mixed-integer solver (HiGHS); `progress` hears of every better
    plan as (stage, objective, bound); `clock` is a monotonic clock in seconds that fills `Plan.solve_s`. `known`: plans
    of snapshots much like this one; the search begins with the best that can be made of what they rent. `least`: what
    the objective of a plan that leaves nothing unmet is known to be at least. Placements are left to the caller.
    ValueError for offers and guardrails that make no sense.
    """
    began = clock() if clock else 0.0
    solver = milp or HighsMilp()
    problem = read_problem(snapshot, library)
    more = partial(floor, problem, library, solver)
    outcome = Search(problem, solver, progress or _silent, problem.keys_of(known), least, more).run()
    settled = settle(problem, outcome.incumbent, outcome.row_upper, solver, snapshot.settings.seed)
    plan = with_id(make_plan(problem, outcome, settled, policy))
    return replace(plan, solve_s=clock() - began) if clock else plan


def _silent(stage: str, objective: float, bound: float) -> None:
    del stage, objective, bound
