"""How well an objective was kept, and how fast its error budget burns."""

import math
from collections.abc import Mapping


def share_within(histogram: Mapping[float, float], limit_s: float) -> float | None:
    """Share of the observations, 0 to 1, interpolated in the bucket of the limit; None without observations.
    `histogram`: upper bound in seconds → observations, the lowest bound first."""
    total, within, low = sum(histogram.values()), 0.0, 0.0
    if not total:
        return None
    for bound, count in histogram.items():
        if bound <= limit_s:
            within += count
        elif low < limit_s and not math.isinf(bound):
            within += count * (limit_s - low) / (bound - low)
        low = bound
    return within / total


def burn_rate(share: float | None, percentile: float) -> float | None:
    """Return how many times as fast as allowed an objective is missed: at 1 it is just kept, at 2 its budget of misses
    is spent in half the time (Google's SRE workbook, chapter 5)."""
    return None if share is None else (1 - share) / (1 - percentile / 100)
