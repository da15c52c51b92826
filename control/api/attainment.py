"""Percentiles of histograms, shares within an objective, and how fast its error budget burns."""

import math
from collections.abc import Iterable
from itertools import accumulate

from control.db.slo_samples import Judged, LatencyHistogram
from control.fleet.latency import Histogram


def added(parts: Iterable[LatencyHistogram]) -> dict[float, float]:
    """Upper bound in seconds → observations, of histograms that may differ in their bounds."""
    total: dict[float, float] = {}
    for part in parts:
        for bound, count in zip(part.bounds_s, part.counts, strict=True):
            key = math.inf if bound is None else bound
            total[key] = total.get(key, 0.0) + count
    return dict(sorted(total.items()))


def judged(parts: Iterable[Judged]) -> list[Judged]:
    """All answers by work class and objective."""
    total: dict[tuple[str, str], Judged] = {}
    for part in parts:
        key = part.work_class, part.objective
        before = total.get(key, Judged(*key, 0.0, 0.0))
        total[key] = Judged(*key, before.answers + part.answers, before.kept + part.kept)
    return [total[key] for key in sorted(total)]


def percentile_s(histogram: dict[float, float], percent: float) -> float | None:
    """Interpolated in its bucket; None without observations, or beyond the last finite bound."""
    found = Histogram(tuple(histogram), tuple(accumulate(histogram.values()))).percentile(percent)
    return None if found is None or math.isinf(found) else found


def share_within(histogram: dict[float, float], limit_s: float) -> float | None:
    """Share of the observations, 0 to 1, interpolated in the bucket of the limit; None without observations."""
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
