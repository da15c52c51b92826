"""Requests per second, window by window."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class RateSeries:
    """Mean arrival rate and burstiness of consecutive windows of `window_s` seconds, from time 0.

    Raises ValueError when a rate is negative or not finite, or when the two arrays differ in length.
    """

    id: str
    window_s: float
    requests_per_s: NDArray[np.float64]
    """(w,) ≥ 0"""
    cv: NDArray[np.float64]
    """(w,) ≥ 0: coefficient of variation of the gaps between arrivals in the window (Poisson: 1, clockwork: 0)."""
    source: str = ""

    def __post_init__(self) -> None:
        if self.window_s <= 0 or len(self.requests_per_s) == 0 or self.cv.shape != self.requests_per_s.shape:
            raise ValueError(f"rate series {self.id!r}: needs windows longer than 0 s and one cv a window")
        if not (np.isfinite(self.requests_per_s).all() and (self.requests_per_s >= 0).all()):
            raise ValueError(f"rate series {self.id!r}: every rate must be a finite number of at least 0")
        if not (np.isfinite(self.cv).all() and (self.cv >= 0).all()):
            raise ValueError(f"rate series {self.id!r}: every cv must be a finite number of at least 0")

    @property
    def duration_s(self) -> float:
        return self.window_s * len(self.requests_per_s)

    @property
    def mean_requests_per_s(self) -> float:
        return float(self.requests_per_s.mean())

    @property
    def peak_requests_per_s(self) -> float:
        return float(self.requests_per_s.max())

    def at(self, time_s: float) -> float:
        """Rate at a time; 0 outside the series."""
        window = math.floor(time_s / self.window_s)
        return float(self.requests_per_s[window]) if 0 <= window < len(self.requests_per_s) else 0.0

    def scaled_to(self, requests_per_s: float) -> "RateSeries":
        """The same curve at this mean (Coral, section 6.1: every trace is scaled uniformly to one average rate)."""
        if self.mean_requests_per_s == 0:
            raise ValueError(f"rate series {self.id!r} has no requests: it cannot be scaled to {requests_per_s} per s")
        return replace(self, requests_per_s=self.requests_per_s * (requests_per_s / self.mean_requests_per_s))


def mixed(name: str, parts: Sequence[RateSeries]) -> RateSeries:
    """Several streams arriving together, as long as the shortest.

    Burstiness is that of independent renewal streams over long times, cv² = Σ λ cv² / Σ λ (Whitt, "Approximating
    a point process by a renewal process", 1982, asymptotic method). Raises ValueError when windows differ.
    """
    lengths = {p.window_s for p in parts}
    if len(lengths) != 1:
        raise ValueError(f"rate series {name!r}: windows of {sorted(lengths)} s cannot be mixed: give all one length")
    windows = min(len(p.requests_per_s) for p in parts)
    rates = np.array([p.requests_per_s[:windows] for p in parts])
    dispersion = np.array([p.cv[:windows] for p in parts]) ** 2 * rates
    source = "; ".join(dict.fromkeys(p.source for p in parts if p.source))
    total = rates.sum(0)
    # A window without requests has no gaps; it counts as Poisson, which changes no sum.
    cv = np.sqrt(np.divide(dispersion.sum(0), total, out=np.ones_like(total), where=total > 0))
    return RateSeries(name, lengths.pop(), total, cv, source)


def constant(name: str, requests_per_s: float, duration_s: float, *, cv: float = 1.0) -> RateSeries:
    """One window of one rate."""
    return RateSeries(name, duration_s, np.array([float(requests_per_s)]), np.array([cv]))


def diurnal(
    name: str,
    mean_requests_per_s: float,
    *,
    peak_to_trough: float = 3.0,
    days: int = 1,
    window_s: float = 3600.0,
    peak_hour: float = 14.0,
    cv: float = 1.0,
) -> RateSeries:
    """A daily wave: a cosine around the mean that is highest at `peak_hour`."""
    middle = (np.arange(round(days * 86400 / window_s)) + 0.5) * window_s
    swing = (peak_to_trough - 1) / (peak_to_trough + 1)
    rates = mean_requests_per_s * (1 + swing * np.cos(2 * np.pi * (middle / 86400 - peak_hour / 24)))
    return RateSeries(name, window_s, rates, np.full(len(rates), cv))
