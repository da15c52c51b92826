"""Synthetic arrivals: a rate series becomes a stream, the same for the same seed; and how requests come around a mean
rate."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

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


@dataclass(frozen=True, slots=True, eq=False)
class Arrivals:
    """How requests come around their mean rate: at random, in bursts of a renewal process, or as they were recorded.

    Raises ValueError for a cv below 0 or not finite, for gaps that are negative or all 0, and for no such share.
    """

    cv: float = 1.0
    """Standard deviation over mean of gaps that are gamma-distributed: 1 is Poisson, more is burstier. Of recorded
    gaps, theirs."""
    gaps: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    """(n,) recorded gaps in mean gaps; they come again and again, begun anywhere. None: gaps are drawn."""
    share: float = 1.0
    """Share of the requests with these gaps that come here, above 0 and at most 1: the others go elsewhere, whatever
    the gaps beside them, so that a small share of bursts comes nearly at random."""

    def __post_init__(self) -> None:
        if not (np.isfinite(self.cv) and self.cv >= 0):
            raise ValueError(f"arrivals: cv must be a finite number of at least 0, not {self.cv}")
        if len(self.gaps) and not (np.isfinite(self.gaps).all() and self.gaps.min() >= 0 and self.gaps.sum() > 0):
            raise ValueError("arrivals: gaps must be finite, at least 0, and not all 0")
        if not 0 < self.share <= 1:
            raise ValueError(f"arrivals: share must be above 0 and at most 1, not {self.share}")

    @property
    def is_poisson(self) -> bool:
        return not len(self.gaps) and self.cv == 1

    def times(self, requests_per_s: float, length_s: float, draw: np.random.Generator) -> NDArray[np.float64]:
        """Return arrival times, in order, within [0, `length_s`): `requests_per_s` of this share."""
        if length_s <= 0 or requests_per_s <= 0:
            return np.zeros(0)
        if self.share < 1:
            every = replace(self, share=1.0).times(requests_per_s / self.share, length_s, draw)
            return every[draw.random(len(every)) < self.share]
        if len(self.gaps):
            begun = np.roll(self.gaps / self.gaps.mean(), -int(draw.integers(len(self.gaps))))
            rounds = int(np.ceil(length_s * requests_per_s / len(begun))) + 1
            passed = np.cumsum(np.tile(begun, rounds))
        else:
            passed = self._drawn(length_s * requests_per_s, draw)
        times = passed / requests_per_s
        return times[times < length_s]  # after the division, whose rounding may reach the end

    def _drawn(self, mean_gaps: float, draw: np.random.Generator) -> NDArray[np.float64]:
        """Cumulated gaps of mean 1, past `mean_gaps`."""
        shape = 1 / max(self.cv, CLOCKWORK_CV) ** 2
        blocks, reached = [], 0.0
        while reached < mean_gaps:
            blocks.append(reached + np.cumsum(draw.gamma(shape, 1 / shape, BLOCK)))
            reached = float(blocks[-1][-1])
        return np.concatenate(blocks) if blocks else np.zeros(0)
