"""How long a step takes that is repeated: the same on a machine that is shared and under a quota."""

import statistics
import time
from collections.abc import Callable

BLOCKS = 5
BLOCK_S = 0.1
"""A quota is given in periods of some milliseconds: a block is many of them."""


def seconds_per_call(call: Callable[[], None], cores: float | None) -> float:
    """Median over BLOCKS of the mean of a block; a first call warms up and is not counted.

    Of a node that has `cores` ≤ 1 processors it is at most the processor time over its share: what takes longer on the
    clock was taken by others, who kept the node from its quota. None, or more: by the clock.
    """
    call()
    walls, shares = [], []
    for _ in range(BLOCKS):
        calls, start, cpu = 0, time.perf_counter(), time.process_time()
        while (passed := time.perf_counter() - start) < BLOCK_S or not calls:
            call()
            calls += 1
        walls.append(passed / calls)
        shares.append((time.process_time() - cpu) / calls)
    wall = statistics.median(walls)
    return wall if cores is None or cores > 1 else min(wall, statistics.median(shares) / cores)
