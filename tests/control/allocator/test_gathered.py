"""With clouds for zones no plan costs more, which is a bound for those that tell zones apart."""

import math
from dataclasses import replace
from typing import Any

import pytest

from control.allocator import floor, search, solve
from control.allocator.gathered import gathered
from control.checker import check
from templates_lib.values.settings import Mode, Settings, Survive
from tests.control.allocator.allocation_cases import World, random_world
from tests.control.allocator.exact_allocation import exact_optimum

CASES = range(30)


def world_of_places(seed: int) -> World:
    """A world without a fleet, whose zones are places alone."""
    world = random_world(seed)
    guardrails = replace(world.settings.guardrails, max_zone_share=1.0)
    settings: Settings = replace(world.settings, mode=Mode.ZONES, survive=Survive.NOTHING, guardrails=guardrails)
    return replace(world, instances=(), settings=settings)


@pytest.mark.parametrize("seed", CASES)
def test_a_plan_costs_no_more_with_clouds_for_zones(seed: int) -> None:
    world = world_of_places(seed)
    wide = gathered(world.snapshot)
    assert wide is not None
    assert len({offer.zone_id for offer in wide.offers}) == 1
    exact = exact_optimum(world)
    least = exact_optimum(replace(world, offers=wide.offers, pools=wide.pools, traffic=wide.traffic))
    assert least.unmet_by_level <= [each + 1e-6 for each in exact.unmet_by_level]
    if least.unmet_by_level == pytest.approx(exact.unmet_by_level, abs=1e-6):
        assert least.objective <= exact.objective + 1e-5 * max(1.0, exact.objective)


def test_plans_are_optimal_with_a_bound_of_that(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the first plan is of few columns, so that it is often not proven by itself."""
    raised = 0

    def counted(*given: Any) -> tuple[float, float]:
        nonlocal raised
        bound, seconds = floor.floor(*given)
        raised += bound > -math.inf
        return bound, seconds

    monkeypatch.setattr(search, "MANY_HOPS", 0)
    monkeypatch.setattr(search, "can_refine", lambda _: False)
    monkeypatch.setattr("control.allocator.allocate.floor", counted)
    for seed in CASES:
        world = world_of_places(seed)
        few = replace(world.settings, limits=replace(world.settings.limits, incumbent_columns=4))
        world = replace(world, settings=few)
        exact, plan = exact_optimum(world), solve(world.snapshot, world.library)
        assert check(plan, world.snapshot) == ()
        tolerance = 1e-5 * max(1.0, exact.objective)
        assert plan.bound <= exact.objective + tolerance
        assert plan.objective <= exact.objective * (1 + few.limits.gap) + tolerance
        assert plan.objective >= exact.objective - tolerance
    assert raised > len(CASES) // 8


@pytest.mark.parametrize(
    "change", [{"mode": Mode.PAPER}, {"survive": Survive.ZONE}, {"survive": Survive.INSTANCE}], ids=str
)
def test_zones_that_are_more_than_places_stay(change: dict[str, object]) -> None:
    world = world_of_places(1)
    assert gathered(replace(world, settings=replace(world.settings, **change)).snapshot) is None
