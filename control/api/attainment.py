"""Percentiles of histograms, and answers as gateways judged them."""

import math
from collections.abc import Iterable
from itertools import accumulate

from control.db.slo_samples import Judged
from control.fleet.latency import Histogram


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
