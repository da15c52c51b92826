"""The allocator against an independently written full program."""

import pytest

from control.allocator import solve
from control.checker import check
from tests.control.allocator.allocation_cases import random_world
from tests.control.allocator.exact_allocation import exact_optimum

CASES = range(80)


@pytest.mark.parametrize("seed", CASES)
def test_plan_equals_the_exact_optimum(seed: int) -> None:
    world = random_world(seed)
    exact = exact_optimum(world)
    plan = solve(world.snapshot, world.library)
    assert check(plan, world.snapshot) == ()
    priorities = sorted({d.priority for d in world.demand}, reverse=True)
    for priority, least in zip(priorities, exact.unmet_by_level, strict=False):
        unmet = sum(plan.unmet.get(d.key, 0.0) for d in world.demand if d.priority == priority)
        assert unmet == pytest.approx(least, abs=1e-4)
    tolerance = 1e-5 * max(1.0, exact.objective)
    assert plan.bound <= exact.objective + tolerance
    assert exact.objective <= plan.objective + tolerance
    assert plan.objective <= exact.objective * (1 + world.settings.limits.gap) + tolerance
