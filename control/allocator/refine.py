"""Refinement of the relaxation: a tight bound and a pool of promising columns, by pricing what demands share."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from control.allocator.bundles import Bundles
from control.allocator.columns import Floats, Ints, PickedColumns, concatenate
from control.allocator.decomposition import Decomposition, decomposes
from control.allocator.problem import AllocationProblem
from control.allocator.relaxation import Relaxed
from templates_lib.values.settings import Survive

NARROWER = 0.6
"""The room is narrowed to this share of it, as often as it holds more columns than…"""
MOST_EXAMINED = 200_000
MOST_ROUNDS = 30
WORK = 12_000_000
"""Item · place updates of all rounds, so that many classes and places get fewer rounds."""
CLOSE = 2e-4
"""Stop when prices are this close to the best prices, as a share of the bound."""
STEADY = 0.7
"""Weight of the best prices so far against the newest, which jump about."""


@dataclass(frozen=True, slots=True, eq=False)
class Refined:
    examined: PickedColumns
    rise: Floats
    """(columns,) by how much the bound rises, at least, when a column is used."""
    order: Ints
    """Columns, those of the least rise first."""
    in_bundles: Ints
    """Columns of plans seen on the way."""
    priced_bound: float
    """Below every plan made of the examined columns."""
    limit: float
    """Below every plan that uses another column."""
    narrowed: bool
    """True where some columns within the room asked for were too many to examine."""
    rounds: int

    @property
    def bound(self) -> float:
        return min(self.priced_bound, self.limit)


def can_refine(problem: AllocationProblem) -> bool:
    """Tell whether demands share nothing but supply, and nothing counts instances, losses or what is kept."""
    settings = problem.snapshot.settings
    counted = bool(len(problem.frame.counts.row)) or settings.survive is not Survive.NOTHING or settings.beside_running
    return not counted and decomposes(problem)


def refine(
    problem: AllocationProblem,
    relaxed: Relaxed,
    row_upper: Floats,
    room: float,
    seed: int,
    heard: Callable[[float], None],
) -> Refined:
    """Alternate between prices (a linear program over bundles) and the demands' best answers to them.

    Columns are examined whose reduced cost is at most `room`: all that a plan may use which costs at most that much
    more than the relaxation. `heard` is called with every better bound. At the least unmet demand of zero only.
    """
    examined, asked = _examined(problem, relaxed, room), room
    while len(examined) > MOST_EXAMINED:
        room *= NARROWER
        examined = examined.take(np.flatnonzero(examined.reduced_cost <= room))
    decomposition = Decomposition(problem, examined, row_upper)
    bundles = Bundles(problem, decomposition, row_upper, 10 * max(relaxed.bound, 1.0), seed)
    best = relaxed.bound
    steady = decomposition.shared_dual(relaxed.vertex.row_dual)
    priced = decomposition.price(steady)
    if priced is not None:
        best = max(best, priced.bound)
        bundles.add(decomposition.choices(priced))
        heard(min(best, relaxed.bound + room))
    best_priced = priced
    rounds = int(np.clip(WORK / (1 + len(examined) + 4_000 * decomposition.covers), 4, MOST_ROUNDS))
    done = 0
    for _ in range(rounds if priced is not None else 0):
        vertex, newest = bundles.solve()
        if vertex.objective - best <= CLOSE * best:  # prices are as good as they can become
            break
        done += 1
        fresh = False
        for weight in (STEADY, 0.0):
            dual = weight * steady + (1 - weight) * decomposition.shared_dual(newest)
            priced = decomposition.price(dual)
            if priced is None:  # they would pay for an instance, so they bound nothing
                continue
            if priced.bound > best:
                best, steady, best_priced = priced.bound, dual, priced
                heard(min(best, relaxed.bound + room))
            fresh = bundles.add(decomposition.choices(priced))
            if fresh:  # steadied prices lead on: the raw ones swing, and are asked only where those are stuck
                break
        if not fresh:  # every bundle that these prices want is known: the next round would be this one
            break
    rise = decomposition.rises(best_priced) if best_priced is not None else examined.reduced_cost
    below = best_priced.bound if best_priced is not None else relaxed.bound
    order = np.argsort(rise, kind="stable")
    return Refined(examined, rise, order, bundles.columns(), below, relaxed.bound + room, room < asked, done)


def _examined(problem: AllocationProblem, relaxed: Relaxed, room: float) -> PickedColumns:
    """Columns of small reduced cost, and all of running templates."""
    columns, groups = problem.columns, len(problem.supply.groups)
    near = columns.under(relaxed.prices, room)
    key = columns.library.point_template[near.point] * groups + near.group
    near = near.take(np.flatnonzero(~np.isin(key, problem.frame.running_key)))
    template, group = problem.frame.running_key // groups, problem.frame.running_key % groups
    owner, point = columns.points_of(template)
    return concatenate([near, PickedColumns(point, group[owner], np.zeros(len(point)))])
