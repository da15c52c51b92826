"""How long a step takes that is repeated: the same on a machine that is shared and under a quota."""

import statistics
import time
from collections.abc import Callable

BLOCKS = 3
BLOCK_S = 0.1
"""A quota is given in periods of some milliseconds: a block is many of them."""


def seconds_per_call(call: Callable[[], None]) -> float:
    """Median over BLOCKS of the mean of a block; a first call warms up and is not counted."""
    call()
    means = []
    for _ in range(BLOCKS):
        calls, start = 0, time.perf_counter()
        while (passed := time.perf_counter() - start) < BLOCK_S or not calls:
            call()
            calls += 1
        means.append(passed / calls)
    return statistics.median(means)
