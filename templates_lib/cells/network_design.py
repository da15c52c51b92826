"""The multicommodity network design problem without topology, both variants (Cornserve, appendix B).

Its numbers are scaled so that HiGHS's absolute tolerances mean the same for a model of a hundred requests a second and
one of a hundredth: no plan of B GPUs serves more than the bound that lets replicas be fractions.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from templates_lib.cells.problem import CellProblem, Floats
from templates_lib.cells.solver import SmallProgram, optimum

SERVED_COST, HOP_COST = 1e3, 1e-4
"""What the objective gives for all requests, and takes for each that goes from one option to another: of plans that
serve as much, one that sends little. A ten-millionth of the requests is not worth more than a hop of all of them."""
SLACK = 1e-9
"""Relative: a plan that falls short of its target by less reaches it."""


@dataclass(frozen=True, slots=True)
class CellPlan:
    """How many replicas of each option, and how requests split over paths."""

    replicas: Mapping[str, int]
    """Option → replicas; options without any are left out."""
    flows: tuple[float, ...]
    """Requests/s of each of the problem's paths."""
    requests_per_s: float
    gpus: int


def most_requests(problem: CellProblem, budget: int) -> CellPlan:
    """The most requests/s of the problem's mix on at most `budget` GPUs (equations 13 to 15).

    A plan of no requests where the budget is less than any path needs.
    """
    scale = relaxed_requests_per_gpu(problem) * budget
    times = problem.seconds * scale
    options, paths = times.shape
    shares = np.array([problem.shares[name] for name in problem.types])
    # Variables: flows over the scale, replicas, requests over the scale.
    types = np.hstack([problem.of_types(problem.types), np.zeros((len(shares), options)), -shares[:, None]])
    busy = np.hstack([times, -np.eye(options), np.zeros((options, 1))])
    rent = np.hstack([np.zeros(paths), problem.gpus, [0.0]])[None, :]
    rows = np.vstack([types, busy, rent])
    lower = np.concatenate([np.zeros(len(shares)), np.full(options + 1, -np.inf)])
    upper = np.concatenate([np.zeros(len(shares) + options), [float(budget)]])
    cost = np.concatenate([_hops(problem), np.zeros(options), [-SERVED_COST]])
    integer = np.zeros(len(cost), dtype=bool)
    integer[paths:-1] = True
    found = optimum(SmallProgram(cost, rows, lower, upper, integer))
    if found is None:  # no replica at all serves nothing
        raise RuntimeError("a budget without replicas was called infeasible")
    return _plan(problem, np.round(found.x[paths:-1]))


def fewest_gpus(problem: CellProblem, requests_per_s: float) -> CellPlan:
    """The fewest GPUs that serve `requests_per_s` of the problem's mix (equations 10 to 12)."""
    times = problem.seconds * requests_per_s
    options, paths = times.shape
    shares = np.array([problem.shares[name] for name in problem.types])
    rows = np.vstack([
        np.hstack([problem.of_types(problem.types), np.zeros((len(shares), options))]),
        np.hstack([times, -np.eye(options)]),
    ])  # fmt: skip
    lower = np.concatenate([shares, np.full(options, -np.inf)])
    upper = np.concatenate([shares, np.zeros(options)])
    cost = np.concatenate([np.zeros(paths), problem.gpus])
    integer = np.concatenate([np.zeros(paths, dtype=bool), np.ones(options, dtype=bool)])
    found = optimum(SmallProgram(cost, rows, lower, upper, integer))
    if found is None:
        raise RuntimeError("a demand that enough replicas serve was called infeasible")
    return _plan(problem, np.round(found.x[paths:]))


def relaxed_requests_per_gpu(problem: CellProblem) -> float:
    """Requests/s of a GPU if replicas were divisible: each type takes the path of the fewest GPU-seconds."""
    cost = problem.gpus @ problem.seconds
    of_types = problem.of_types(problem.types)
    cheapest = np.array([cost[row > 0].min() for row in of_types])
    shares = np.array([problem.shares[name] for name in problem.types])
    return float(1 / (shares @ cheapest))


def requests_of(problem: CellProblem, replicas: Floats) -> tuple[float, Floats]:
    """The most requests/s of the mix with (S,) `replicas`, and the (P,) flows that reach it."""
    shares = np.array([problem.shares[name] for name in problem.types])
    scale = relaxed_requests_per_gpu(problem) * max(float(problem.gpus @ replicas), 1.0)
    times = problem.seconds * scale
    options, paths = times.shape
    rows = np.vstack([
        np.hstack([problem.of_types(problem.types), -shares[:, None]]),
        np.hstack([times, np.zeros((options, 1))]),
    ])  # fmt: skip
    lower = np.concatenate([np.zeros(len(shares)), np.full(options, -np.inf)])
    upper = np.concatenate([np.zeros(len(shares)), replicas])
    cost = np.append(_hops(problem), -SERVED_COST)
    found = optimum(SmallProgram(cost, rows, lower, upper, np.zeros(paths + 1, dtype=bool)))
    if found is None:
        raise RuntimeError("no requests at all were called infeasible")
    return max(float(found.x[-1] * scale), 0.0), np.maximum(found.x[:-1], 0.0) * scale


def _hops(problem: CellProblem) -> Floats:
    """(P,) cost of each path's visits but the first."""
    return HOP_COST * np.array([len(each.path.visits) - 1.0 for each in problem.paths])


def _plan(problem: CellProblem, replicas: Floats) -> CellPlan:
    """A plan of these whole replicas. What HiGHS says of flows is within its tolerances of what fractions would serve;
    it is solved again for the whole ones."""
    requests, flows = requests_of(problem, replicas)
    if requests <= 0:  # no path has all of its options: what some of them would cost is for nothing
        replicas = np.zeros_like(replicas)
    counts = {o.name: int(n) for o, n in zip(problem.options, replicas, strict=True) if n}
    return CellPlan(counts, tuple(float(flow) for flow in flows), requests, int(problem.gpus @ replicas))
