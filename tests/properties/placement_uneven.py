"""The best placement under an uneven split of the objective, straight from its definition."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

FIRST, MIDDLE, LAST, ONLY = range(4)


def best_uneven_units_per_s(units: NDArray[np.float64], nodes: tuple[int, ...]) -> float:
    """Over all pipelines of all layers on all `nodes` whose stages' ticks add up to no more than all ticks.

    T̂ `units` (4, B, C, L): budget b is b + 1 of B ticks.
    """
    _, ticks, _, layers = units.shape
    everything = (1 << len(nodes)) - 1

    @cache
    def stage(block: int, role: int, own_ticks: int, held: int) -> float:
        inside = [k for i, k in enumerate(nodes) if block >> i & 1]
        return float(units[role, own_ticks - 1, inside, held - 1].sum())

    @cache
    def best(left: int, layers_left: int, ticks_left: int) -> float:
        """Of the stages from here to the last, the first stage being done unless everything is left."""
        starts, most, block = left == everything, 0.0, left
        while block:
            if block == left:
                most = max(most, stage(block, ONLY if starts else LAST, ticks_left, layers_left))
            else:
                for held in range(1, layers_left):
                    for own in range(1, ticks_left):
                        here = stage(block, FIRST if starts else MIDDLE, own, held)
                        if here > most:
                            most = max(most, min(here, best(left ^ block, layers_left - held, ticks_left - own)))
            block = (block - 1) & left
        return most

    return best(everything, layers, ticks)
