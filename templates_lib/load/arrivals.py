"""Synthetic arrivals: a rate series becomes a stream, the same for the same seed."""

from collections.abc import Iterator

import numpy as np

from templates_lib.load.rate_series import RateSeries

BLOCK = 1024
"""Gaps drawn at once: memory stays small however long the stream is."""

CLOCKWORK_CV = 1e-3
"""A gamma law needs some spread; gaps that differ by a thousandth are clockwork for every purpose here."""


def arrival_times(series: RateSeries, seed: int) -> Iterator[float]:
    """Arrival times in seconds, increasing, until the series ends.

    A renewal process of unit rate with gamma gaps (ServeGen: gamma gaps describe bursty clients; cv 1 is Poisson)
    is mapped through the cumulative rate, so that every window has its mean rate; the gap's cv is that of the
    window in which it starts.
    """
    draw = np.random.default_rng(seed)
    edges = np.concatenate(([0.0], np.cumsum(series.requests_per_s * series.window_s)))
    work = 0.0
    while True:
        window = min(int(np.searchsorted(edges, work, side="right")) - 1, len(series.cv) - 1)
        shape = 1 / max(float(series.cv[window]), CLOCKWORK_CV) ** 2
        passed = work + np.cumsum(draw.gamma(shape, 1 / shape, BLOCK))
        # Gaps that start beyond the window's end belong to the next one, with its own burstiness.
        block = passed[: int(np.searchsorted(passed, edges[window + 1])) + 1]
        for work in block.tolist():
            if work >= edges[-1]:
                return
            reached = int(np.searchsorted(edges, work, side="right")) - 1
            yield (reached + (work - edges[reached]) / (edges[reached + 1] - edges[reached])) * series.window_s
