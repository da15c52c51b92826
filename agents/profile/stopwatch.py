"""How long a step takes that is repeated."""

import time
from collections.abc import Callable

BLOCK_S = 0.1
"""A quota is given in periods of some milliseconds: a block is many of them."""


def block_seconds(call: Callable[[], object]) -> tuple[float, float]:
    """Seconds of one call, on the clock and of the processor: means over BLOCK_S, and over one call at least."""
    calls, start, cpu = 0, time.perf_counter(), time.process_time()
    while (passed := time.perf_counter() - start) < BLOCK_S or not calls:
        call()
        calls += 1
    return passed / calls, (time.process_time() - cpu) / calls
