"""Percentiles of histograms of latencies."""

import math
from itertools import accumulate

from control.fleet.latency import Histogram


def percentile_s(histogram: dict[float, float], percent: float) -> float | None:
    """Interpolated in its bucket; None without observations, or beyond the last finite bound."""
    found = Histogram(tuple(histogram), tuple(accumulate(histogram.values()))).percentile(percent)
    return None if found is None or math.isinf(found) else found
