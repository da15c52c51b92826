"""A fleet that nobody asks for: the plan runs nothing, and gives back what runs."""

from dataclasses import replace

import pytest

from control.allocator import solve
from control.checker import check
from tests.control.allocator.allocation_cases import random_world


@pytest.mark.parametrize("seed", range(8))
def test_a_fleet_without_demand_runs_no_more_than_its_guardrails_ask(seed: int) -> None:
    made = random_world(seed)
    made = replace(made, demand=tuple(replace(demand, requests_per_s=0.0) for demand in made.demand))
    plan = solve(made.snapshot, made.library)
    assert check(plan, made.snapshot) == ()
    assert plan.unmet == dict.fromkeys(plan.unmet, 0.0)
    if not made.settings.guardrails.replicas:
        assert plan.instances == ()
        assert plan.usd_per_hour == 0
