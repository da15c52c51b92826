"""What the planner of cells is held to: every vector of replicas, every placement, every count of cells.

Independent of the planner: flows come from scipy's linear programs. Not each vector has to be solved: the prices of an
optimum bound what all vectors serve (their worth at these prices), so a vector is left out once some bound says that it
is no better than what was found.
"""

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from templates_lib.cells.cell import Cell
from templates_lib.cells.problem import CellProblem
from templates_lib.cells.topology import Topology
from templates_lib.executors.path import Traffic

Floats = NDArray[np.float64]


def served(problem: CellProblem, replicas: Floats) -> tuple[float, Floats]:
    """Requests/s of the mix on these replicas, and (S,) prices whose worth of any replicas bounds what those serve."""
    times, count = problem.seconds, len(problem.paths)
    matches = np.array([[p.request_type == t for p in problem.paths] for t in problem.types], dtype=float)
    shares = np.array([problem.shares[t] for t in problem.types])
    solved = linprog(
        np.append(np.zeros(count), -1.0),
        A_ub=np.hstack([times, np.zeros((len(times), 1))]),
        b_ub=replicas,
        A_eq=np.hstack([matches, -shares[:, None]]),
        b_eq=np.zeros(len(shares)),
        method="highs",
    )
    assert solved.status == 0, solved.message
    return -solved.fun, np.maximum(-solved.ineqlin.marginals, 0.0)


def every_vector(problem: CellProblem, budget: int) -> Floats:
    """(n, S) all counts of replicas within a budget of GPUs."""
    vectors = np.zeros((1, 0))
    for option in problem.options:
        counts = np.arange(budget // option.gpus + 1)
        vectors = np.hstack([np.repeat(vectors, len(counts), 0), np.tile(counts, len(vectors))[:, None]])
        spent = vectors @ np.array([o.gpus for o in problem.options[: vectors.shape[1]]])
        vectors = vectors[spent <= budget]
    return vectors


def most_requests_by_force(problem: CellProblem, budget: int) -> float:
    vectors = every_vector(problem, budget)
    bound, best = np.full(len(vectors), np.inf), 0.0
    while bound.max() > best * (1 + 1e-9) + 1e-12:
        number = int(np.argmax(bound))
        found, prices = served(problem, vectors[number])
        best = max(best, found)
        bound = np.minimum(bound, vectors @ prices)
        bound[number] = found
    return best


def fewest_gpus_by_force(problem: CellProblem, requests_per_s: float, most: int) -> int | None:
    """None: `most` GPUs are too few."""
    vectors = every_vector(problem, most)
    vectors = vectors[np.argsort(vectors @ problem.gpus, kind="stable")]
    bound = np.full(len(vectors), np.inf)
    while (bound >= requests_per_s * (1 - 1e-9)).any():
        number = int(np.argmax(bound >= requests_per_s * (1 - 1e-9)))
        found, prices = served(problem, vectors[number])
        if found >= requests_per_s * (1 - 1e-9):
            return int(vectors[number] @ problem.gpus)
        bound = np.minimum(bound, vectors @ prices)
        bound[number] = found
    return None


def efficient_by_definition(requests_per_s: Sequence[float]) -> list[int]:
    """Sizes that serve more than as many GPUs of smaller sizes in any mixture."""
    best, kept = [0.0], []
    for gpus in range(1, 2 ** (len(requests_per_s) - 1) + 1):
        smaller = max([0.0, *(best[gpus - 2**i] + r for i, r in enumerate(requests_per_s) if 2**i < gpus)])
        exponent = gpus.bit_length() - 1
        whole = requests_per_s[exponent] if gpus == 2**exponent else 0.0
        if whole > smaller * (1 + 1e-9):
            kept.append(gpus)
        best.append(max(best[-1], smaller, whole))
    return kept


def fewest_gpus_of_cells(cells: Sequence[Cell], requests_per_s: float) -> int:
    """By the most that each number of GPUs serves, one after the other."""
    best = [0.0]
    while best[-1] < requests_per_s * (1 - 1e-9):
        gpus = len(best)
        best.append(max([best[-1], *(best[gpus - c.gpus] + c.requests_per_s for c in cells if c.gpus <= gpus)]))
    return len(best) - 1


def fewest_placed_by_force(
    problem: CellProblem, traffic: Sequence[Sequence[Traffic]], topology: Topology, requests_per_s: float
) -> int | None:
    """Every placement, with requests split over every tuple of nodes that the visits of a path can be at."""
    nodes = range(len(topology.gpus))
    ways = [
        (p, where) for p, each in enumerate(problem.paths) for where in product(nodes, repeat=len(each.path.visits))
    ]
    place = {option.name: number for number, option in enumerate(problem.options)}
    matches = np.array([[problem.paths[p].request_type == t for p, _ in ways] for t in problem.types], dtype=float)
    shares = np.array([problem.shares[t] for t in problem.types])
    work = np.zeros((len(problem.options), len(topology.gpus), len(ways)))
    links = np.zeros((*topology.bytes_per_s.shape, len(ways)))
    for column, (p, where) in enumerate(ways):
        for visit, seconds, node in zip(problem.paths[p].path.visits, problem.paths[p].seconds, where, strict=True):
            work[place[visit.option], node, column] += seconds * requests_per_s
        for move in traffic[p]:
            links[where[move.source], where[move.target], column] += move.bytes_per_request * requests_per_s
    finite = np.isfinite(topology.bytes_per_s)
    room = topology.bytes_per_s[finite]
    rows = np.vstack([work.reshape(-1, len(ways)), links[finite] / room[:, None]])
    for placed in sorted(_placements(problem, topology), key=lambda y: float(problem.gpus @ y.sum(axis=1))):
        upper = np.concatenate([placed.ravel(), np.ones(len(room))])
        solved = linprog(np.zeros(len(ways)), A_ub=rows, b_ub=upper, A_eq=matches, b_eq=shares, method="highs")
        if solved.status == 0:
            return int(problem.gpus @ placed.sum(axis=1))
    return None


def _placements(problem: CellProblem, topology: Topology) -> Iterator[Floats]:
    """(S, H) replicas of each option on each node."""
    for columns in product(*(every_vector(problem, gpus) for gpus in topology.gpus)):
        yield np.array(columns).T
