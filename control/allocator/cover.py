"""The cheapest whole instances that cover the load of one class in one place, for every load at once.

An unbounded knapsack cover by dynamic programming over loads 0 … G, the peak load being cut into G equal parts.
"""

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from control.allocator.columns import Floats, Ints


@dataclass(frozen=True, slots=True, eq=False)
class Cover:
    least: Floats
    """(G + 1,) least cost of covering each load; +∞ where no item exists."""
    _choice: Ints
    """(G + 1,) item that the best cover of a load ends with, -1 for none."""
    _size: Ints
    _item: Ints
    _discounted: tuple[tuple[int, int, NDArray[np.bool_]], ...]
    """(item, size, loads whose best cover takes this copy), in the order in which copies were offered."""

    def items(self, load: int) -> Counter[int]:
        """Items of a best cover of `load`."""
        used: Counter[int] = Counter()
        for item, size, taken in reversed(self._discounted):
            if taken[load]:
                used[item] += 1
                load = max(0, load - size)
        while load > 0:
            at = int(self._choice[load])
            used[int(self._item[at])] += 1
            load = max(0, load - int(self._size[at]))
        return used


def cover(size: Ints, cost: Floats, parts: int, copies: list[tuple[int, float]]) -> Cover:
    """Best covers of loads 0 … `parts` by items of (size, cost ≥ 0); `copies` are (item, cost) of single cheaper ones.

    An item is only offered where no item at least as large is cheaper.
    """
    # Numba takes a fifth of a second to import: only problems large enough for covers wait for it.
    from control.allocator.kernels import cheapest_covers

    order = np.lexsort((np.arange(len(size)), cost, -size))
    ordered = cost[order]
    front = np.ones(len(order), dtype=bool)
    front[1:] = ordered[1:] < np.minimum.accumulate(ordered)[:-1]
    kept = order[front]
    kept = kept[size[kept] > 0]
    least, choice = cheapest_covers(size[kept].astype(np.int64), cost[kept].astype(np.float64), parts)
    discounted = []
    for item, price in copies:
        of = int(size[item])
        shifted = np.concatenate([np.full(min(of, parts + 1), least[0]), least[: max(0, parts + 1 - of)]])
        taken = shifted + price < least
        taken[0] = False
        least = np.where(taken, shifted + price, least)
        discounted.append((item, of, taken))
    return Cover(least, choice.astype(np.int64), size[kept].astype(np.int64), kept, tuple(discounted))
