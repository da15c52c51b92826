"""The allocator against an independently written full program."""

from dataclasses import replace
from functools import partial

import pytest

from control.allocator import solve
from control.checker import check
from control.planning.solves import RememberedSolves
from templates_lib.values.plan import Plan
from tests.control.allocator.allocation_cases import World, name_of, random_world
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


@pytest.mark.parametrize("seed", CASES[::4])
def test_so_are_those_that_follow_under_other_caps_and_over_fewer_templates(seed: int) -> None:
    world, remembered = random_world(seed), RememberedSolves(solve)
    homogeneous = world.library.select((world.library.nodes > 0).sum(axis=1) == 1)
    for factor in (1.0, 0.8, 0.9):
        settings = replace(world.settings, utilisation_cap=factor * world.settings.utilisation_cap)
        for library in (world.library, homogeneous):
            under = replace(world.snapshot, settings=settings)
            plan, alone = remembered(under, library), solve(under, library)
            assert check(plan, under) == ()
            assert plan.unmet == pytest.approx(alone.unmet, abs=1e-4)
            tolerance = 1e-5 * max(1.0, alone.objective)
            assert plan.bound <= alone.objective + tolerance
            assert plan.objective <= alone.objective * (1 + settings.limits.gap) + tolerance
            assert alone.bound <= plan.objective + tolerance


@pytest.mark.parametrize("seed", CASES[::4])
def test_a_cap_of_one_template_counts_as_less_capacity_of_it(seed: int) -> None:
    world = random_world(seed)
    cap = world.settings.utilisation_cap
    capped = {t: {name: 0.7 for point in world.shapes[t].points for name in point} for t in (0, len(world.shapes) - 1)}
    shapes = list(world.shapes)
    of_templates: dict[str, dict[str, float]] = {}
    for t, factors in capped.items():
        points = tuple({name: 0.7 * units for name, units in point.items()} for point in shapes[t].points)
        shapes[t] = replace(shapes[t], points=points)
        for name, factor in factors.items():
            of_templates.setdefault(name, {})[name_of(t)] = factor * cap
    under = replace(world, settings=world.settings.capped({}, of_templates))
    plan = solve(under.snapshot, under.library)
    assert_optimal(plan, under, exact_optimum(replace(world, shapes=tuple(shapes))))
    remembered = RememberedSolves(solve)
    remembered(under.snapshot, under.library)
    assert_optimal(remembered(world.snapshot, world.library), world, exact_optimum(world))


def test_what_was_found_before_is_not_proven_again() -> None:
    """The second solve has no program but that of the first plan's templates."""
    world = next(w for w in map(random_world, CASES) if not (p := solve(w.snapshot, w.library)).unmet and p.instances)
    heard: list[str] = []
    remembered = RememberedSolves(partial(solve, progress=lambda stage, *_: heard.append(stage)))
    first = remembered(world.snapshot, world.library)
    heard.clear()
    again = remembered(world.snapshot, world.library)
    assert again.objective == pytest.approx(first.objective)
    assert set(heard) <= {"relaxation", "bound", "known"}


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
