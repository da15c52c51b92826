"""Compiled search for the best placement of one bag when the objective may be split unevenly over the stages.

Budgets are ticks: budget b of a table is (b + 1) ticks, and the last one is the whole objective. For a partition and a
threshold t, stage s carries J_s(t, b) layers with budget b, so a placement above t exists if and only if the knapsack
max ΣJ_s(t, b_s) over Σ(b_s + 1) ≤ ticks reaches L. Its budgets, once fixed, have an optimum by shedding layers as in
the even split; the threshold is then raised to it, until the knapsack falls short. That is exact on the grid.
"""

from templates_lib.placement_solver.bag import Bag
from templates_lib.placement_solver.compiled import Floats, Small, compiled
from templates_lib.placement_solver.scratch import Scratch
from templates_lib.placement_solver.stage_kernel import (
    MIDDLE,
    NEVER,
    Blocks,
    begin_depth,
    layers_above,
    most_as_middle,
    note_stages,
    place_whole,
    put_in_order,
    repeats,
    role_of,
    shed_layers,
)


@compiled
def _fill_reach(units: Floats, bag: Bag, role: int, code: int, stages: int, best: float, scratch: Scratch) -> None:
    """J(best) of a block in a role for each budget that leaves the other stages a tick."""
    if scratch.reach_at[role, code] == best:
        return
    most = units.shape[3] - stages + 1
    for budget in range(units.shape[1] - stages + 1):
        scratch.reach[role, code, budget] = layers_above(units, role, budget, bag, code, best, most)
    scratch.reach_at[role, code] = best


@compiled
def _most_layers(stages: int, ticks: int, ordered: bool, scratch: Scratch) -> int:
    """The most layers that the stages of `scratch` carry within `ticks` ticks; its `choice` gets each stage's ticks.

    `ordered`: in the roles of their places; otherwise all as middle stages.
    """
    scratch.knapsack[0, :] = 0
    for s in range(stages):
        before, after = scratch.knapsack[s % 2], scratch.knapsack[(s + 1) % 2]
        reach = scratch.reach[role_of(s, stages) if ordered else MIDDLE, scratch.codes[s]]
        for used in range(s + 1, ticks - (stages - 1 - s) + 1):
            after[used], scratch.choice[s, used] = NEVER, 1
            for own in range(1, used - s + 1):
                layers = before[used - own] + reach[own - 1]
                if layers > after[used]:
                    after[used], scratch.choice[s, used] = layers, own
    return int(scratch.knapsack[stages % 2, ticks])


@compiled
def _improve(units: Floats, bag: Bag, stages: int, best: float, scratch: Scratch, cuts: Small) -> float:
    """The optimum over budgets and layers of the stages in `scratch`, or `best` where none beats it."""
    ticks = units.shape[1]
    while True:
        for s in range(stages):
            _fill_reach(units, bag, role_of(s, stages), scratch.codes[s], stages, best, scratch)
        if _most_layers(stages, ticks, True, scratch) < units.shape[3]:
            return best
        left = ticks
        for s in range(stages - 1, -1, -1):
            own = scratch.choice[s, left]
            scratch.budgets[s] = own - 1
            scratch.layers[s] = scratch.reach[role_of(s, stages), scratch.codes[s], own - 1]
            left -= own
        best = shed_layers(units, bag, stages, scratch)
        note_stages(stages, scratch, cuts)


@compiled
def _order_unevenly(
    units: Floats, bag: Bag, blocks: Blocks, stages: int, best: float, scratch: Scratch, cuts: Small
) -> float:
    """The best units/s of `blocks` over all choices of first and last stage, or `best` where none beats it."""
    for s in range(stages):
        scratch.codes[s] = blocks[s]
        if scratch.reach_at[MIDDLE, blocks[s]] < 0.0:
            _fill_reach(units, bag, MIDDLE, blocks[s], stages, best, scratch)
    if _most_layers(stages, units.shape[1], False, scratch) < units.shape[3]:
        return best
    for first in range(stages):
        if repeats(blocks, first, -1):
            continue
        for last in range(stages):
            if last == first or repeats(blocks, last, first):
                continue
            put_in_order(blocks, stages, first, last, scratch.codes)
            best = _improve(units, bag, stages, best, scratch, cuts)
    return best


@compiled
def place_unevenly(units: Floats, bag: Bag, floor: float, scratch: Scratch, cuts: Small) -> tuple[float, int]:
    """Place a bag as `place_evenly`, but with any split of the objective over the stages that the grid of budgets
    allows."""
    ticks, total_layers = units.shape[1], units.shape[3]
    best, best_stages = floor, 0
    whole = place_whole(units, bag, ticks - 1, cuts)
    if whole > best:
        best, best_stages = whole, 1
    for stages in range(2, min(bag.nodes, total_layers, ticks) + 1):
        begin_depth(units, bag, stages, ticks - stages, best, scratch)
        for p in range(bag.partition_start[stages], bag.partition_start[stages + 1]):
            blocks = bag.partitions[p]
            if most_as_middle(blocks, stages, scratch) >= total_layers:
                improved = _order_unevenly(units, bag, blocks, stages, best, scratch, cuts)
                if improved > best:
                    best, best_stages = improved, stages
    return best, best_stages
