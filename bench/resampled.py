"""Resampling of rate series to windows of another length."""

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from templates_lib.load.rate_series import RateSeries


def resampled(series: RateSeries, window_s: float) -> RateSeries:
    """Return the same expected requests in windows of `window_s` seconds.

    The last window is filled up with zero rate when the lengths do not divide. Burstiness is averaged as in
    `rate_series.mixed`, each piece weighted by its requests.
    """
    edges = np.arange(len(series.requests_per_s) + 1) * series.window_s
    windows = math.ceil(series.duration_s / window_s - 1e-9)
    targets = np.minimum(np.arange(windows + 1) * window_s, series.duration_s)

    def integral(values: NDArray[np.float64]) -> NDArray[np.float64]:
        total = np.concatenate(([0.0], np.cumsum(values * series.window_s)))
        return np.diff(np.interp(targets, edges, total))

    requests, dispersion = integral(series.requests_per_s), integral(series.requests_per_s * series.cv**2)
    cv = np.sqrt(np.divide(dispersion, requests, out=np.ones_like(requests), where=requests > 0))
    return replace(series, window_s=window_s, requests_per_s=requests / window_s, cv=cv)
