"""Compiled arithmetic of stages: what a block of nodes sustains, and how blocks share the layers."""

import numpy as np
from numpy.typing import NDArray

from templates_lib.placement_solver.bag import Bag
from templates_lib.placement_solver.compiled import Bytes, Floats, Ints, Small, compiled
from templates_lib.placement_solver.scratch import Scratch

Blocks = NDArray[np.uint8]
"""(8,) codes of the blocks of a partition, non-increasing, zero-padded."""

FIRST, MIDDLE, LAST, ONLY = 0, 1, 2, 3
"""Values of `StageRole` as plain numbers, since compiled code reads them as constants."""

NEVER = -100_000
"""Layers of a stage that cannot reach a threshold at all: low enough to sink any sum."""


@compiled
def _sum_units(units: Floats, role: int, budget: int, types: Ints, counts: Bytes, code: int, layers: int) -> float:
    total = 0.0
    for i in range(len(types)):
        count = counts[code, i]
        if count > 0:
            total += count * units[role, budget, types[i], layers - 1]
    return total


@compiled
def stage_units(units: Floats, role: int, budget: int, bag: Bag, code: int, layers: int) -> float:
    """Units/s of a stage of `layers` layers: ΣT̂ over its nodes, since data-parallel peers add up (Coral, section 4.2).

    `units` (4, B, C, L).
    """
    return _sum_units(units, role, budget, bag.types, bag.counts, code, layers)


@compiled
def layers_above(units: Floats, role: int, budget: int, bag: Bag, code: int, threshold: float, most: int) -> int:
    """J(t): the most layers, up to `most`, at which the stage sustains more than `threshold`; NEVER if not even one.

    T̂ does not increase with the layers, so bisection finds it.
    """
    types, counts = bag.types, bag.counts
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) >> 1
        if _sum_units(units, role, budget, types, counts, code, middle) > threshold:
            low = middle
        else:
            high = middle - 1
    return low if low > 0 else NEVER


@compiled
def role_of(stage: int, stages: int) -> int:
    """Return T̂'s role of a stage in a pipeline of two stages or more."""
    if stage == 0:
        return FIRST
    return LAST if stage == stages - 1 else MIDDLE


@compiled
def repeats(blocks: Blocks, chosen: int, other: int) -> bool:
    """Tell whether choosing block `chosen` together with `other` (-1: none) repeats a choice of an equal block before
    it."""
    before = chosen - 1
    return before >= 0 and before != other and blocks[before] == blocks[chosen]


@compiled
def put_in_order(blocks: Blocks, stages: int, first: int, last: int, codes: Ints) -> None:
    """Blocks in pipeline order into `codes` (8,): block `first`, the others as they come, block `last`."""
    codes[0], codes[stages - 1] = blocks[first], blocks[last]
    filled = 1
    for s in range(stages):
        if s not in (first, last):
            codes[filled] = blocks[s]
            filled += 1


@compiled
def shed_layers(units: Floats, bag: Bag, stages: int, scratch: Scratch) -> float:
    """Take layers off the slowest stage until all of the model's are left; the slowest stage's units/s then.

    Optimal for fixed blocks and budgets: T̂ does not increase with the layers, so every placement above the slowest
    stage's present throughput has fewer layers there. `units` (4, B, C, L). Reads codes and budgets of `scratch`,
    overwrites layers and values.
    """
    codes, budgets, layers, values = scratch.codes, scratch.budgets, scratch.layers, scratch.values
    excess = -units.shape[3]
    for s in range(stages):
        excess += layers[s]
        values[s] = stage_units(units, role_of(s, stages), budgets[s], bag, codes[s], layers[s])
    while excess > 0:
        slowest = -1
        for s in range(stages):
            if layers[s] > 1 and (slowest < 0 or values[s] < values[slowest]):
                slowest = s
        layers[slowest] -= 1
        role = role_of(slowest, stages)
        values[slowest] = stage_units(units, role, budgets[slowest], bag, codes[slowest], layers[slowest])
        excess -= 1
    slowest_value = values[0]
    for s in range(1, stages):
        slowest_value = min(slowest_value, values[s])
    return float(slowest_value)


@compiled
def begin_depth(units: Floats, bag: Bag, stages: int, budget: int, best: float, scratch: Scratch) -> None:
    """Forget what `scratch` knows of other depths; J(best) of every block as a middle stage with `budget`, the largest
    that a stage of so many can have."""
    most = units.shape[3] - stages + 1
    scratch.reach_at[:, : len(bag.counts)] = -1.0
    for code in range(1, len(bag.counts)):
        if bag.sizes[code] <= bag.nodes - stages + 1:
            scratch.widest[code] = layers_above(units, MIDDLE, budget, bag, code, best, most)


@compiled
def most_as_middle(blocks: Blocks, stages: int, scratch: Scratch) -> int:
    """An upper bound of the layers that `blocks` carry above the threshold of `begin_depth`."""
    total = 0
    for s in range(stages):
        total += scratch.widest[blocks[s]]
    return total


@compiled
def note_stages(stages: int, scratch: Scratch, cuts: Small) -> None:
    """Keep the placement in `scratch` as `cuts` (3, 8): code, layers and budget index of each stage."""
    for s in range(stages):
        cuts[0, s], cuts[1, s], cuts[2, s] = scratch.codes[s], scratch.layers[s], scratch.budgets[s]


@compiled
def place_whole(units: Floats, bag: Bag, budget: int, cuts: Small) -> float:
    """Units/s of all nodes as data-parallel copies of the whole model; noted in `cuts`."""
    code, layers = len(bag.counts) - 1, units.shape[3]
    cuts[0, 0], cuts[1, 0], cuts[2, 0] = code, layers, budget
    return stage_units(units, ONLY, budget, bag, code, layers)
