"""Templates of any-to-any models, allocated where a GPU costs the same everywhere, are what the planner finds."""

from dataclasses import replace

import numpy as np
import pytest

from bench.graph_allocation import GPUS, USD_PER_GPU_HOUR, library_of, node, problem_of, random_work
from control.allocator import solve
from control.checker import check
from control.checker.claims import claims_of
from templates_lib.apps.app_work import AppWork
from templates_lib.cells.network_design import fewest_gpus, most_requests
from templates_lib.values.settings import Settings
from templates_lib.values.snapshot import Snapshot
from templates_lib.values.work import Demand
from tests import factories as make

AS_PAPER = Settings(utilisation_cap=1.0, startup_minutes=0.0)


def snapshot_of(work: AppWork, requests_per_s: float) -> Snapshot:
    offers = [make.offer(node(gpus).id, "cloud/z", gpus * USD_PER_GPU_HOUR, 1000) for gpus in GPUS]
    demand = tuple(Demand("app", kind.name, kind.share * requests_per_s) for kind in work.app.types)
    return replace(make.snapshot(offers, work.routes(), {}, settings=AS_PAPER), demand=demand)


@pytest.mark.parametrize("seed", range(12))
def test_at_the_price_of_gpus_the_allocation_takes_as_many_as_the_planner(seed: int) -> None:
    rng = np.random.default_rng(seed)
    work = random_work(rng)
    problem, library = problem_of(work), library_of(work)
    wanted = most_requests(problem, 12).requests_per_s * rng.uniform(0.2, 1)
    snapshot = snapshot_of(work, wanted)
    plan = solve(snapshot, library)
    assert not plan.unmet
    assert plan.rent_usd_per_hour == pytest.approx(fewest_gpus(problem, wanted).gpus * USD_PER_GPU_HOUR, rel=1e-3)
    assert check(plan, snapshot, claims_of(library, [each.template_id for each in plan.instances])) == ()


@pytest.mark.parametrize("seed", range(12))
def test_the_paper_s_own_paths_never_take_fewer_gpus(seed: int) -> None:
    """Executors that may do a part of what they could need no more than those that always do all of it."""
    rng = np.random.default_rng(100 + seed)
    work = random_work(rng)
    printed = work.problem(work.nodes[0])
    assert printed is not None
    wanted = most_requests(printed, 8).requests_per_s * rng.uniform(0.2, 1)
    plan = solve(snapshot_of(work, wanted), library_of(work))
    assert not plan.unmet
    assert plan.rent_usd_per_hour <= fewest_gpus(printed, wanted).gpus * USD_PER_GPU_HOUR * (1 + 1e-3)
