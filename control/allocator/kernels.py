"""The inner loops of covers and splits, as machine code that is kept on disk between runs."""

import numba
import numpy as np
from numpy.typing import NDArray

from control.allocator.columns import Floats


@numba.njit(cache=True, nogil=True)
def cheapest_covers(size: NDArray[np.int64], cost: Floats, parts: int) -> tuple[Floats, NDArray[np.int32]]:
    """(parts + 1,) least cost of covering each load by any number of items, and the item that ends its best cover."""
    least = np.empty(parts + 1)
    choice = np.full(parts + 1, -1, dtype=np.int32)
    least[0] = 0.0
    for load in range(1, parts + 1):
        best, at = np.inf, -1
        for item in range(len(size)):
            rest = load - size[item]
            total = cost[item] + (least[rest] if rest > 0 else 0.0)
            if total < best:
                best, at = total, item
        least[load], choice[load] = best, at
    return least, choice


@numba.njit(cache=True, nogil=True)
def added(left: Floats, right: Floats) -> Floats:
    """(min, +) convolution of two tables; what exceeds the last entry counts there. `right` never falls."""
    last = len(left) - 1
    out = np.full(len(left), np.inf)
    for i in range(last + 1):
        if left[i] == np.inf:
            continue
        for j in range(last + 1 - i):
            total = left[i] + right[j]
            out[i + j] = min(out[i + j], total)
        if i > 0:
            out[last] = min(out[last], left[i] + right[last + 1 - i])
    return out
