"""What a cell's replicas sustain when the mix is another: a schedule for a demand, or the proof that there is none."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from templates_lib.cells.network_design import SLACK
from templates_lib.cells.problem import CellProblem
from templates_lib.cells.solver import SmallProgram, optimum


@dataclass(frozen=True, slots=True)
class Schedule:
    flows: tuple[float, ...]
    """Requests/s of each of the problem's paths."""
    busy: Mapping[str, float]
    """Option → share of the time that each of its replicas works, when they take turns: 1 at most."""


@dataclass(frozen=True, slots=True)
class Shortage:
    """No schedule serves the demand. A second of each option has a `price`; whatever path each type takes, its requests
    cost more than all replicas are worth."""

    prices: Mapping[str, float]
    """Option → price of a second of one replica."""
    worth: float
    """Of all replicas, a second."""
    cost: float
    """Least cost of a second's requests; more than `worth`."""
    served: float
    """The largest share of the demand that there is a schedule for."""


def schedule_of(
    problem: CellProblem, replicas: Mapping[str, int], requests_per_s: Mapping[str, float]
) -> Schedule | Shortage:
    """A schedule of (request type → requests/s) on these replicas, or why there is none.

    Raises ValueError for a demand that is nothing, negative, or of a type without a path.
    """
    names = tuple(name for name, rate in requests_per_s.items() if rate != 0)
    rates = np.array([requests_per_s[name] for name in names])
    if not names or not np.all((rates > 0) & np.isfinite(rates)):
        raise ValueError(f"cannot schedule {dict(requests_per_s)}: say requests/s, none negative, and some")
    of_types = problem.of_types(names)
    if not of_types.any(axis=1).all():
        lost = names[int(np.argmin(of_types.any(axis=1)))]
        raise ValueError(f"request type {lost!r} has no path; leave it out of the demand")
    held = np.array([float(replicas.get(option.name, 0)) for option in problem.options])
    # Flows are in shares of each type's demand, so that numbers are near 1: the largest share of all that fits.
    demand = of_types.T @ rates
    times = problem.seconds * demand[None, :]
    size = times.max()
    options, paths = times.shape
    rows = np.vstack([
        np.hstack([of_types, -np.ones((len(names), 1))]),
        np.hstack([times / size, np.zeros((options, 1))]),
    ])  # fmt: skip
    lower = np.concatenate([np.zeros(len(names)), np.full(options, -np.inf)])
    upper = np.concatenate([np.zeros(len(names)), held / size])
    cost = np.zeros(paths + 1)
    cost[-1] = -1.0
    found = optimum(SmallProgram(cost, rows, lower, upper, np.zeros(paths + 1, dtype=bool)))
    if found is None:
        raise RuntimeError("no requests at all were called infeasible")
    served = float(found.x[-1])
    if served < 1 - SLACK:
        return _shortage(problem, held, demand, of_types, -found.row_dual[len(names) :] / size, served)
    flows = found.x[:-1] / served * demand
    busy = problem.seconds @ flows
    return Schedule(
        tuple(float(flow) for flow in flows),
        {o.name: float(b / n) for o, b, n in zip(problem.options, busy, held, strict=True) if n},
    )


def _shortage(
    problem: CellProblem,
    held: np.ndarray[tuple[int], np.dtype[np.float64]],
    demand: np.ndarray[tuple[int], np.dtype[np.float64]],
    of_types: np.ndarray[tuple[int, int], np.dtype[np.float64]],
    duals: np.ndarray[tuple[int], np.dtype[np.float64]],
    served: float,
) -> Shortage:
    prices = np.maximum(duals, 0.0)
    costs = (prices @ problem.seconds) * demand
    least = sum(float(costs[row > 0].min()) for row in of_types)
    named = {option.name: float(price) for option, price in zip(problem.options, prices, strict=True)}
    return Shortage(named, float(prices @ held), least, served)
