"""Large problems are solved by pricing what demands share. Small ones, made to go that way, meet the exact optimum."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from control.allocator import search, solve
from control.allocator.highs import HighsMilp
from control.allocator.polish import polish
from control.allocator.problem import read_problem
from control.allocator.program import Effort, MilpSolution, Program, Start
from control.allocator.refine import Refined, can_refine, refine
from control.allocator.restricted import restrict_to
from control.checker import check
from templates_lib.values.settings import Mode, Survive, WorkLimits
from tests.control.allocator.allocation_cases import World, random_world
from tests.control.allocator.exact_allocation import exact_optimum

LARGE = WorkLimits(gap=0.0, incumbent_columns=1)
"""Every problem counts as large."""
CHUNKS, CASES = 8, 12


def single_class_world(seed: int) -> World:
    """A random world whose templates serve one class each and whose demands share nothing but supply."""
    world = random_world(seed)
    shapes = tuple(replace(s, points=(dict([min(s.points[0].items())]),)) for s in world.shapes)
    guardrails = replace(world.settings.guardrails, replicas={})
    settings = replace(world.settings, guardrails=guardrails, survive=Survive.NOTHING, limits=LARGE)
    demand = tuple(replace(d, requests_per_s=0.4 * d.requests_per_s) for d in world.demand)
    return replace(world, shapes=shapes, settings=settings, demand=demand)


def decomposable_worlds(first: int) -> list[World]:
    """The next CASES worlds from a seed on that decompose."""
    found: list[World] = []
    seed = first
    while len(found) < CASES:
        world = single_class_world(seed)
        if can_refine(read_problem(world.snapshot, world.library)):
            found.append(world)
        seed += 1
    return found


@pytest.fixture
def refined(monkeypatch: pytest.MonkeyPatch) -> list[Refined]:
    """Everything that the search refined, in order."""
    seen: list[Refined] = []

    def recorded(*arguments: object) -> Refined:
        seen.append(refine(*arguments))  # type: ignore[arg-type]
        return seen[-1]

    monkeypatch.setattr(search, "refine", recorded)
    return seen


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_bound_optimum_and_plan_are_in_order(chunk: int, refined: list[Refined]) -> None:
    for world in decomposable_worlds(1000 * chunk):
        refined.clear()
        exact = exact_optimum(world)
        plan = solve(world.snapshot, world.library)
        assert check(plan, world.snapshot) == ()
        tolerance = 1e-5 * max(1.0, exact.objective)
        assert plan.bound <= exact.objective + tolerance
        assert plan.objective == pytest.approx(exact.objective, abs=tolerance)
        if not any(exact.unmet_by_level):
            assert all(found.bound <= exact.objective + tolerance for found in refined)


def test_the_worlds_do_go_the_large_way(refined: list[Refined]) -> None:
    modes = set()
    for world in decomposable_worlds(0):
        solve(world.snapshot, world.library)
        modes.add(world.settings.mode)
    assert len(refined) > CASES // 2
    assert modes == {Mode.PAPER, Mode.ZONES}


def test_no_plan_under_the_rise_of_a_column_uses_it(refined: list[Refined]) -> None:
    """The exact optimum with a column forced in is at least the bound plus the column's rise."""
    held = 0
    for world in decomposable_worlds(300):
        refined.clear()
        solve(world.snapshot, world.library)
        if not refined:
            continue
        found, problem = refined[-1], read_problem(world.snapshot, world.library)
        for column in np.flatnonzero(np.isfinite(found.rise))[:6]:
            picked = problem.columns.all()
            upper = problem.frame.row_upper.copy()
            upper[[level.row for level in problem.frame.levels]] = 1e-9
            whole = restrict_to(problem, picked, upper, problem.frame.variables.cost, cost=True)
            groups = len(problem.supply.groups)
            key = problem.library.point_template[found.examined.point[column]] * groups + found.examined.group[column]
            lower = whole.program.variables.lower.copy()
            lower[whole.first_column + int(np.flatnonzero(whole.key == key)[0])] = 1.0
            program = replace(whole.program, variables=replace(whole.program.variables, lower=lower))
            answer = HighsMilp()(program, Effort(0.0, 10_000, 10**6, 0), None, lambda _: None)
            if answer.x is not None:
                held += 1
                tolerance = 1e-5 * max(1.0, answer.objective)
                assert found.priced_bound + found.rise[column] <= answer.objective + tolerance
    assert held > CASES


def test_polishing_all_units_together_ends_at_the_optimum() -> None:
    improved = 0
    for world in decomposable_worlds(500):
        problem = read_problem(world.snapshot, world.library)
        exact = exact_optimum(world)
        if any(exact.unmet_by_level) or len(problem.routing.classes) > 4:
            continue
        upper = problem.frame.row_upper.copy()
        upper[[level.row for level in problem.frame.levels]] = 1e-9
        whole = restrict_to(problem, problem.columns.all(), upper, problem.frame.variables.cost, cost=True)
        first = _any_plan(whole.program)
        if first is None:
            continue
        costs = [float(whole.program.variables.cost @ first)]
        heard = partial(_record, costs)
        polish(problem, whole, whole.counts(first), costs[0], 0.0, 0, _solver(), heard)
        assert costs == sorted(costs, reverse=True)
        assert costs[-1] == pytest.approx(exact.objective, rel=1e-4, abs=1e-4)
        improved += len(costs) > 1
    assert improved > 2


def _any_plan(program: Program) -> np.ndarray | None:
    nothing = replace(program.variables, cost=np.zeros(len(program.variables)))
    answer = HighsMilp()(replace(program, variables=nothing), Effort(0.0, 1_000, 10**6, 0), None, lambda _: None)
    return answer.x


def _record(costs: list[float], counts: dict[int, int], cost: float) -> None:
    assert counts
    costs.append(cost)


def _solver() -> Callable[[Program, Start], MilpSolution | None]:
    return lambda part, start: HighsMilp()(part, Effort(0.0, 1_000, 10**6, 0), start, lambda _: None)


def test_equal_snapshots_give_equal_plans_on_the_large_way() -> None:
    for world in decomposable_worlds(700)[:6]:
        plans = [solve(world.snapshot, world.library) for _ in range(2)]
        assert plans[0] == plans[1]
