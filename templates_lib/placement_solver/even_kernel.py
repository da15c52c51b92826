"""Compiled search for the best placement of one bag when every stage has the same share of the objective.

For a partition of the bag into stages, J(t) is the most layers a stage carries above a threshold t. Any placement
better than t needs ΣJ(t) ≥ L, so most partitions die at one look with t the best found so far. One that survives gets
its optimum by shedding layers.

Which block comes first and which last matters, since those hold the embedding and the LM head. T̂ of a middle stage is
an upper bound of both, so a partition is tried with middle stages only before its (first, last) pairs are.
"""

from templates_lib.placement_solver.bag import Bag
from templates_lib.placement_solver.compiled import Floats, Small, compiled
from templates_lib.placement_solver.scratch import Scratch
from templates_lib.placement_solver.stage_kernel import (
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
def _layers_within_reach(units: Floats, bag: Bag, stages: int, best: float, scratch: Scratch) -> int:
    """ΣJ(best) of the stages in `scratch`, each in its role; their J go into its layers."""
    most = units.shape[3] - stages + 1
    total = 0
    for s in range(stages):
        role, code = role_of(s, stages), scratch.codes[s]
        if scratch.reach_at[role, code] != best:
            scratch.reach[role, code, 0] = layers_above(units, role, stages - 1, bag, code, best, most)
            scratch.reach_at[role, code] = best
        scratch.layers[s] = scratch.reach[role, code, 0]
        total += scratch.layers[s]
    return total


@compiled
def _order_evenly(
    units: Floats, bag: Bag, blocks: Blocks, stages: int, best: float, scratch: Scratch, cuts: Small
) -> float:
    """The best units/s of `blocks` over all choices of first and last stage, or `best` where none beats it."""
    for first in range(stages):
        if repeats(blocks, first, -1):
            continue
        for last in range(stages):
            if last == first or repeats(blocks, last, first):
                continue
            put_in_order(blocks, stages, first, last, scratch.codes)
            if _layers_within_reach(units, bag, stages, best, scratch) >= units.shape[3]:
                best = shed_layers(units, bag, stages, scratch)
                note_stages(stages, scratch, cuts)
    return best


@compiled
def place_evenly(units: Floats, bag: Bag, floor: float, scratch: Scratch, cuts: Small) -> tuple[float, int]:
    """The best placement of `bag` above `floor`: (units/s, stages), or (`floor`, 0) when there is none.

    `units` (4, B, C, L): budget s - 1 is that of s stages. Ties go to fewer stages, then to the earlier partition and
    pair. `cuts` (3, 8) receives code, layers and budget index of each stage, first to last.
    """
    total_layers = units.shape[3]
    best, best_stages = floor, 0
    whole = place_whole(units, bag, 0, cuts)
    if whole > best:
        best, best_stages = whole, 1
    for stages in range(2, min(bag.nodes, total_layers) + 1):
        begin_depth(units, bag, stages, stages - 1, best, scratch)
        scratch.budgets[:] = stages - 1
        for p in range(bag.partition_start[stages], bag.partition_start[stages + 1]):
            blocks = bag.partitions[p]
            if most_as_middle(blocks, stages, scratch) >= total_layers:
                improved = _order_evenly(units, bag, blocks, stages, best, scratch, cuts)
                if improved > best:
                    best, best_stages = improved, stages
    return best, best_stages
