"""The one allocation over prices solves the planner of cells where a GPU costs the same everywhere (Cornserve, B).

Request types are demands, paths are routes, and a deployment option of several components is a template with an
operating point for each thing that a visit can ask of it. What components do together is a work class of its own for
each type.
"""

import numpy as np
import pytest

from bench.random_graphs import random_problem
from control.allocator import solve
from templates_lib.cells.network_design import fewest_gpus, most_requests
from templates_lib.cells.problem import CellProblem, TimedPath
from templates_lib.executors.path import Visit
from templates_lib.values.library import Library
from templates_lib.values.settings import Settings
from templates_lib.values.snapshot import Snapshot
from templates_lib.values.work import Unit
from tests import factories as make

ZONE, USD_PER_GPU_HOUR = "cloud/z", 2.0
AS_PAPER = Settings(utilisation_cap=1.0, startup_minutes=0.0)


def class_of(path: TimedPath, visit: Visit) -> str:
    return f"{visit.option}/{'+'.join(visit.components)}/{path.request_type}"


def as_allocation(problem: CellProblem, requests_per_s: float) -> tuple[Snapshot, Library]:
    points: dict[str, dict[str, float]] = {option.name: {} for option in problem.options}
    for path in problem.paths:
        for visit, seconds in zip(path.path.visits, path.seconds, strict=True):
            points[visit.option][class_of(path, visit)] = 1 / seconds
    classes = [make.work_class(name, Unit.INVOCATION) for of_option in points.values() for name in of_option]
    config = {option.name: f"G:{option.gpus}/n100" for option in problem.options}
    templates = {option.name: ({config[option.name]: 1}, [{name: rate} for name, rate in points[option.name].items()])
                 for option in problem.options}  # fmt: skip
    gpus = {config[option.name]: option.gpus for option in problem.options}
    offers = [make.offer(name, ZONE, count * USD_PER_GPU_HOUR, 1000) for name, count in gpus.items()]
    legs = [{class_of(path, visit): 1.0 for visit in path.path.visits} for path in problem.paths]
    routes = [make.route(path.request_type, legs[number], name=str(number))
              for number, path in enumerate(problem.paths)]  # fmt: skip
    demand = {name: requests_per_s * problem.shares[name] for name in problem.types}
    return make.snapshot(offers, routes, demand, settings=AS_PAPER), make.library(classes, templates)


@pytest.mark.parametrize("seed", range(12))
def test_at_the_price_of_gpus_the_allocation_takes_as_many_as_the_planner(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem, _ = random_problem(rng)
    wanted = most_requests(problem, 16).requests_per_s * rng.uniform(0.2, 1)
    plan = solve(*as_allocation(problem, wanted))
    assert not plan.unmet
    assert plan.rent_usd_per_hour == pytest.approx(fewest_gpus(problem, wanted).gpus * USD_PER_GPU_HOUR, rel=1e-3)
