"""The allocator against an independently written full program."""

from dataclasses import replace

import pytest

from control.allocator import solve
from control.checker import check
from templates_lib.values.plan import Plan
from tests.control.allocator.allocation_cases import World, random_world
from tests.control.allocator.exact_allocation import Exact, exact_optimum

CASES = range(80)


@pytest.mark.parametrize("seed", CASES)
def test_plan_equals_the_exact_optimum(seed: int) -> None:
    world = random_world(seed)
    exact = exact_optimum(world)
    assert_optimal(solve(world.snapshot, world.library), world, exact)


@pytest.mark.parametrize("seed", CASES[::4])
def test_so_does_one_that_begins_with_plans_of_other_demand_caps_and_fleets(seed: int) -> None:
    world, other = random_world(seed), random_world(seed + 1)
    exact = exact_optimum(world)
    more = tuple(replace(each, requests_per_s=1.3 * each.requests_per_s) for each in world.demand)
    tight = replace(world.settings, utilisation_cap=0.6 * world.settings.utilisation_cap)
    known = [
        solve(other.snapshot, other.library),
        solve(replace(world.snapshot, demand=more), world.library),
        solve(replace(world.snapshot, settings=tight), world.library),
    ]
    assert_optimal(solve(world.snapshot, world.library, known=known), world, exact)
    known.append(solve(world.snapshot, world.library))
    assert_optimal(solve(world.snapshot, world.library, known=known), world, exact)


def assert_optimal(plan: Plan, world: World, exact: Exact) -> None:
    assert check(plan, world.snapshot) == ()
    priorities = sorted({d.priority for d in world.demand}, reverse=True)
    for priority, least in zip(priorities, exact.unmet_by_level, strict=False):
        unmet = sum(plan.unmet.get(d.key, 0.0) for d in world.demand if d.priority == priority)
        assert unmet == pytest.approx(least, abs=1e-4)
    tolerance = 1e-5 * max(1.0, exact.objective)
    assert plan.bound <= exact.objective + tolerance
    assert exact.objective <= plan.objective + tolerance
    assert plan.objective <= exact.objective * (1 + world.settings.limits.gap) + tolerance
