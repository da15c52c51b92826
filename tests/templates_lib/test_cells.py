"""The planner of cells finds what trying every count of replicas and of cells finds (Cornserve, section 4.3).

`python -m bench.cells` does the same with many more.
"""

import numpy as np
import pytest

from bench.cell_oracles import (
    efficient_by_definition,
    fewest_gpus_by_force,
    fewest_gpus_of_cells,
    most_requests_by_force,
)
from bench.random_graphs import random_problem
from templates_lib.cells.cell import Cell, best_mixture, change, efficient, exact_mixture, greedy_mixture, plan_cells
from templates_lib.cells.network_design import fewest_gpus, most_requests, requests_of
from templates_lib.cells.problem import CellProblem, TimedPath
from templates_lib.executors.option import DeploymentOption
from templates_lib.executors.path import Path, Visit

PAPERS_MISTAKE = (Cell(1, 1.0), Cell(2, 2.1), Cell(4, 4.4))


@pytest.mark.parametrize("seed", range(25))
def test_both_variants_cells_and_mixtures_are_those_of_brute_force(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem, _ = random_problem(rng)
    plans = plan_cells(problem, 16)
    best = [most_requests_by_force(problem, plan_gpus) for plan_gpus in (1, 2, 4, 8, 16)]
    assert [plan.requests_per_s for plan in plans] == pytest.approx(best, rel=1e-6)
    target = best[-1] * rng.uniform(0.1, 1)
    plan = fewest_gpus(problem, target)
    assert plan.gpus == fewest_gpus_by_force(problem, target, 16)
    assert plan.requests_per_s >= target * (1 - 1e-7)
    cells = efficient([plan.requests_per_s for plan in plans])
    assert [cell.gpus for cell in cells] == efficient_by_definition(best)
    for wanted in best[-1] * rng.uniform(0.05, 5, 5):
        exact, greedy = exact_mixture(cells, wanted), greedy_mixture(cells, wanted)
        assert exact.gpus == fewest_gpus_of_cells(cells, wanted) <= greedy.gpus
        assert min(exact.requests_per_s, greedy.requests_per_s) >= wanted * (1 - 1e-6)


@pytest.mark.parametrize("seed", range(25, 30))
def test_flows_of_a_plan_are_the_mix_and_fit_its_replicas(seed: int) -> None:
    problem, _ = random_problem(np.random.default_rng(seed))
    plan = most_requests(problem, 16)
    flows = np.array(plan.flows)
    for name in problem.types:
        of_type = sum(f for f, path in zip(flows, problem.paths, strict=True) if path.request_type == name)
        assert of_type == pytest.approx(problem.shares[name] * plan.requests_per_s, rel=1e-6, abs=1e-9)
    replicas = np.array([plan.replicas.get(option.name, 0) for option in problem.options])
    assert np.all(problem.seconds @ flows <= replicas * (1 + 1e-6) + 1e-9)
    assert replicas @ problem.gpus == plan.gpus <= 16


def test_the_papers_greedy_mixture_takes_five_gpus_where_four_serve() -> None:
    assert greedy_mixture(PAPERS_MISTAKE, 4.3).gpus == 5
    assert exact_mixture(PAPERS_MISTAKE, 4.3).counts == {4: 1}


def test_a_budget_is_taken_apart_into_efficient_cells() -> None:
    # Two GPUs serve no more than one twice, so they are no cell.
    cells = efficient([1.0, 2.0, 5.0])
    assert [cell.gpus for cell in cells] == [1, 4]
    assert best_mixture(cells, 7).counts == {4: 1, 1: 3}
    assert best_mixture(cells, 0).counts == {}


def test_a_size_that_serves_nothing_is_no_cell() -> None:
    cells = efficient([0.0, 0.0, 3.0])
    assert [cell.gpus for cell in cells] == [4]
    assert greedy_mixture(cells, 7.0).counts == exact_mixture(cells, 7.0).counts == {4: 3}
    with pytest.raises(ValueError, match="no cell"):
        exact_mixture(efficient([0.0]), 1.0)
    with pytest.raises(ValueError, match="negative"):
        exact_mixture(cells, -1.0)


def test_equal_cells_go_on_when_the_load_changes() -> None:
    before, after = exact_mixture(PAPERS_MISTAKE, 10.0), exact_mixture(PAPERS_MISTAKE, 7.0)
    changed = change(before, after)
    for size in {*before.counts, *after.counts}:
        kept, spawned, ended = (of.get(size, 0) for of in (changed.kept, changed.spawned, changed.ended))
        assert kept + ended == before.counts.get(size, 0)
        assert kept + spawned == after.counts.get(size, 0)
        assert min(spawned, ended) == 0


def test_the_deployment_of_section_7_4_serves_what_the_paper_measured() -> None:
    """InternVL3, four encoders and six monoliths on two GPUs each: 9.27 requests/s, 67.5 % of the images through the
    encoders. Times are those that Figure 2 implies: 1.6 images/s an encoder; 0.39 and 0.52 s of a monolith."""
    options = DeploymentOption(("vision",), name="E"), DeploymentOption(("vision", "language"), 2, "EL")
    apart = Path((Visit("E", ("vision",)), Visit("EL", ("language",))))
    whole = Path((Visit("EL", ("vision", "language")),))
    paths = TimedPath("image", apart, (1 / 1.6, 0.52)), TimedPath("image", whole, (0.39 + 0.52,))
    problem = CellProblem(options, {"image": 1.0}, paths)
    served, flows = requests_of(problem, np.array([4.0, 6.0]))
    assert served == pytest.approx(9.27, rel=0.02)
    assert flows[0] / served == pytest.approx(0.675, rel=0.02)
    # And a plan for as many GPUs is no worse.
    assert most_requests(problem, 16).requests_per_s >= served * (1 - 1e-9)


def test_a_problem_says_what_is_wrong_with_it() -> None:
    option, path = DeploymentOption(("a",), name="A"), Path((Visit("A", ("a",)),))
    with pytest.raises(ValueError, match="'A'"):
        CellProblem((option,), {"t": 1.0}, (TimedPath("t", path, (0.0,)),))
    with pytest.raises(ValueError, match="'u'"):
        CellProblem((option,), {"t": 0.5, "u": 0.5}, (TimedPath("t", path, (1.0,)),))
