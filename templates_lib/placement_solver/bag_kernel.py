"""Compiled loop over bags: what the parts of a bag serve, then the best placement that beats them."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from templates_lib.placement_solver.bag import Bag, describe_bag
from templates_lib.placement_solver.bag_index import BagIndex, row_of
from templates_lib.placement_solver.compiled import Bytes, Floats, Small, compiled
from templates_lib.placement_solver.even_kernel import place_evenly
from templates_lib.placement_solver.patterns import Patterns
from templates_lib.placement_solver.scratch import make_scratch
from templates_lib.placement_solver.uneven_kernel import place_unevenly

ROUNDING = 1e-9
"""A template that beats its parts by no more than this share has the sum of their throughputs, rounded."""


class Placed(NamedTuple):
    """Results for n bags; rows of bags not yet placed are zero."""

    served: Floats
    """(n,) the most units/s that the bag serves, as its own template or as several smaller ones."""
    units_per_s: Floats
    """(n,) of its own template; 0: none, or pruned."""
    patterns: NDArray[np.int32]
    """(n,)"""
    stages: Bytes
    """(n,)"""
    cuts: Small
    """(n, 3, 8): code, layers and budget index of each stage, first to last."""


@compiled
def best_of_parts(bag: Bag, index: BagIndex, served: Floats) -> float:
    """The most units/s that the bag's nodes serve as two or more smaller templates, some nodes idle perhaps.

    More than two parts are two of which one is cut again, so two-way splits are enough.
    """
    whole = len(bag.counts) - 1
    of_code = np.zeros(len(bag.counts), dtype=np.float64)
    for code in range(1, whole):
        key = np.uint64(0)
        for i in range(len(bag.types)):
            key += np.uint64(bag.counts[code, i]) * index.keys[bag.types[i]]
        of_code[code] = served[row_of(key, index)]
    most = 0.0
    for code in range(1, whole // 2 + 1):
        most = max(most, of_code[code] + of_code[whole - code])
    return most


@compiled
def _floor(bag: Bag, index: BagIndex, keep: bool, row: int, placed: Placed) -> float:
    """Units per second that a template of bag `row` must beat: the sum of its parts, noted as served so far, or 0 to
    `keep` it."""
    parts = best_of_parts(bag, index, placed.served)
    placed.patterns[row], placed.served[row] = bag.pattern, parts
    return 0.0 if keep else parts * (1 + ROUNDING)


@compiled
def _note(row: int, units_per_s: float, stages: int, placed: Placed) -> None:
    if stages > 0:
        placed.stages[row], placed.units_per_s[row] = stages, units_per_s
        placed.served[row] = max(placed.served[row], units_per_s)


@compiled
def place_bags_evenly(
    units: Floats,
    patterns: Patterns,
    members: Small,
    keep: bool,
    index: BagIndex,
    first: int,
    end: int,
    placed: Placed,
) -> None:
    """Place bags `first` … `end` - 1 of `members` (n, n_max), all smaller ones being done.

    `units` (4, B, C, L). A template stays when it beats its parts; with `keep`, whatever they serve.
    """
    scratch = make_scratch(units.shape[1])
    for row in range(first, end):
        bag = describe_bag(members[row], patterns)
        floor = _floor(bag, index, keep, row, placed)
        units_per_s, stages = place_evenly(units, bag, floor, scratch, placed.cuts[row])
        _note(row, units_per_s, stages, placed)


@compiled
def place_bags_unevenly(
    units: Floats,
    patterns: Patterns,
    members: Small,
    keep: bool,
    index: BagIndex,
    first: int,
    end: int,
    placed: Placed,
) -> None:
    """Place bags as `place_bags_evenly`, with the split of the objective a choice. Two functions, so that each compiles
    alone."""
    scratch = make_scratch(units.shape[1])
    for row in range(first, end):
        bag = describe_bag(members[row], patterns)
        floor = _floor(bag, index, keep, row, placed)
        units_per_s, stages = place_unevenly(units, bag, floor, scratch, placed.cuts[row])
        _note(row, units_per_s, stages, placed)
