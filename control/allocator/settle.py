"""Everything that follows once the instance counts are chosen: flows, nodes by offer, mixtures of points, costs."""

from dataclasses import dataclass, replace

import numpy as np

from control.allocator.columns import Floats, Ints, PickedColumns
from control.allocator.problem import AllocationProblem
from control.allocator.program import Effort, MilpSolver
from control.allocator.restricted import restrict_to
from control.allocator.search import Incumbent


@dataclass(frozen=True, slots=True, eq=False)
class Settled:
    """An incumbent with its continuous part re-optimised at exact counts."""

    template: Ints
    group: Ints
    count: Ints
    """Instances per used (template, group), ascending by template and group."""
    mixtures: dict[int, dict[int, float]]
    """Template · G + group → point → instances at the point."""
    hops: Floats
    unmet: Floats
    offers: Floats
    """(O,) nodes rented by name from cells of several offers; elsewhere 0."""


def settle(problem: AllocationProblem, incumbent: Incumbent, row_upper: Floats, milp: MilpSolver, seed: int) -> Settled:
    """RuntimeError where the counts turn out not to serve what the search said they do."""
    groups = len(problem.supply.groups)
    columns, frame = problem.columns, problem.frame
    key = np.array(sorted(incumbent.counts), dtype=np.int64)
    count = np.array([incumbent.counts[int(k)] for k in key], dtype=np.int64)
    owner, point = columns.points_of(key // groups)
    picked = PickedColumns(point, (key % groups)[owner], np.zeros(len(point)))
    restricted = restrict_to(problem, picked, row_upper, frame.variables.cost, cost=True)
    variables = restricted.program.variables
    lower, upper = variables.lower.copy(), variables.upper.copy()
    single = columns.single_point[key[owner] // groups]
    fixed = np.concatenate([
        restricted.first_column + np.flatnonzero(single),
        restricted.first_count + np.arange(len(restricted.shared_key)),
    ])  # fmt: skip
    known = np.concatenate([count[owner[single]], [incumbent.counts[int(k)] for k in restricted.shared_key]])
    lower[fixed] = upper[fixed] = known
    program = replace(restricted.program, variables=replace(variables, lower=lower, upper=upper))
    answer = milp(program, Effort(0.0, 10_000, 10_000_000, seed), None, lambda _: None)
    if answer.x is None:
        raise RuntimeError("the plan found does not hold once its counts are whole; please report this snapshot")
    mixture = restricted.mixture(answer.x)
    mixtures: dict[int, dict[int, float]] = {int(k): {} for k in key}
    for i, p in enumerate(point):
        mixtures[int(key[owner[i]])][int(p)] = float(mixture[i])
    rented = np.zeros(len(problem.supply.offers))
    by_name = frame.offer_variables >= 0
    rented[by_name] = np.rint(answer.x[frame.offer_variables[by_name]])
    _give_back_unused(problem, rented, key // groups, key % groups, count)
    return Settled(
        key // groups, key % groups, count, mixtures,
        answer.x[frame.hop_variables], answer.x[frame.unmet_variables], rented,
    )  # fmt: skip


def _give_back_unused(problem: AllocationProblem, rented: Floats, template: Ints, group: Ints, count: Ints) -> None:
    """Free nodes may be rented for nothing: rent what is used, from the cheapest offers."""
    supply = problem.supply
    used = np.zeros(supply.bound.shape)
    np.add.at(used.T, group, problem.library.nodes[template].astype(np.float64) * count[:, None])
    for o in sorted(np.flatnonzero(rented), key=lambda o: (supply.offers[o].usd_per_hour, o)):
        cell = supply.offer_config[o], supply.offer_group[o]
        rented[o] = min(rented[o], used[cell])
        used[cell] -= rented[o]
