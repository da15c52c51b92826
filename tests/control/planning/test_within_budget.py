"""A fleet whose budget does not pay for everything: real plans, each rung cheaper than the one before."""

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from control.db.database import Database
from control.planning.within_budget import given_up, within_budget
from control.planning.world import World
from policies.budget import Allowance
from policies.degradation import Rung
from templates_lib.values.plan import Plan
from tests.control.planning.worlds import planned, world_of

SPEC = """\
apiVersion: medley/v1
kind: Fleet
name: chat
models:
  - model: gpt-oss-20b
    slo: {ttft_ms: 1500, tpot_ms: 60, keep: throughput}
    workload: azure-conversation
    demand: {requests_per_s: 60}
clouds:
  - {cloud: aws, regions: [us-east-2], gpus: [L40S, L4], markets: [on-demand, spot]}
policy: {max_spot_share: 0.3, utilisation_cap: 0.6}
solver: {n_max: 1, gap: 0.01}
"""


@pytest.fixture
def world(tmp_path: Path) -> World:
    return world_of(tmp_path, SPEC)


@pytest.fixture
def solve(database: Database) -> Callable[[World], Plan]:
    return partial(planned, database)


def same(plan: Plan) -> Plan:
    return plan


def test_the_ladder_is_climbed_only_as_far_as_the_budget_asks(world: World, solve: Callable[[World], Plan]) -> None:
    costs = {rung: solve(given_up(world, rung, Allowance(math.inf))).usd_per_hour for rung in tuple(Rung)[:3]}
    assert costs[Rung.NOTHING] > costs[Rung.MORE_SPOT] > costs[Rung.LOOSER_CLASS]
    free = within_budget(world, Allowance(math.inf), Rung.NOTHING, solve, same)
    assert (free.taken.rung, free.taken.reasons, free.solved.usd_per_hour) == (Rung.NOTHING, (), costs[Rung.NOTHING])
    for rung, cost in costs.items():
        found = within_budget(world, Allowance(cost, "the budget"), rung, solve, same)
        assert (found.taken.rung, found.solved.usd_per_hour, found.solved.unmet) == (rung, cost, {})
    half = Allowance(costs[Rung.LOOSER_CLASS] / 2, "the budget")
    shed = within_budget(world, half, Rung.NOTHING, solve, same)
    assert shed.taken.rung is Rung.SHED
    assert 0 < shed.solved.usd_per_hour <= half.usd_per_hour
    assert sum(shed.solved.unmet.values()) > 0
    assert "are not served" in shed.taken.reasons[-1]


def test_a_fleet_that_cannot_have_more_spot_is_not_solved_for_it(world: World, solve: Callable[[World], Plan]) -> None:
    spot = given_up(world, Rung.MORE_SPOT, Allowance(math.inf))
    solved: list[World] = []

    def counted(world: World) -> Plan:
        solved.append(world)
        return solve(world)

    taken = within_budget(spot, Allowance(0.01, "the budget"), Rung.NOTHING, counted, same).taken
    assert (taken.rung, len(solved)) == (Rung.SHED, 3)
