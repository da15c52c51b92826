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
    """What is known of n bags; rows of bags not yet placed are zero."""

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
def place_bags(
    units: Floats,
    even: bool,
    patterns: Patterns,
    members: Small,
    keep: NDArray[np.bool_],
    index: BagIndex,
    first: int,
    end: int,
    placed: Placed,
) -> None:
    """Place bags `first` … `end` - 1 of `members` (n, n_max), all smaller ones being done.

    `units` (4, B, C, L). A template stays when it beats its parts, or when `keep` (n,) says so whatever they serve.
    """
    scratch = make_scratch(units.shape[1])
    for row in range(first, end):
        bag = describe_bag(members[row], patterns)
        parts = best_of_parts(bag, index, placed.served)
        floor = 0.0 if keep[row] else parts * (1 + ROUNDING)
        if even:
            best, stages = place_evenly(units, bag, floor, scratch, placed.cuts[row])
        else:
            best, stages = place_unevenly(units, bag, floor, scratch, placed.cuts[row])
        placed.patterns[row] = bag.pattern
        placed.stages[row] = stages
        placed.units_per_s[row] = best if stages > 0 else 0.0
        placed.served[row] = max(parts, placed.units_per_s[row])
