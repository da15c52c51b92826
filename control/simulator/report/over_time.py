"""Sums over spans of time, epoch by epoch."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


_MOMENT_S = 1e-6
"""What is shorter has no length: its rate would be no number."""


def epochs(length_s: float, epoch_s: float) -> Floats:
    """(e + 1,) edges; the last epoch may be shorter."""
    return np.append(np.arange(0.0, length_s - 1e-9 * epoch_s, epoch_s), length_s)


def amounts(edges: Floats, begin: Floats, end: Floats, rate: Floats) -> Floats:
    """(e,) how much each epoch has of spans (n,) that add `rate` a second from `begin` to `end` (≥ `begin`).

    In O(n log n): what came until t is Σ rate · (min(t, end) − min(t, begin)), two sums over sorted times.
    """
    came: Floats = np.diff(_until(edges, end, rate) - _until(edges, begin, rate))
    return came


def spread(edges: Floats, begin: Floats, end: Floats, amount: Floats) -> Floats:
    """(e,) the same of spans that add `amount` (n,) evenly; at once where they have no length."""
    length = end - begin
    at_once = length <= _MOMENT_S
    rate = np.divide(amount, length, out=np.zeros_like(length), where=~at_once)
    points: Floats = np.histogram(begin[at_once], edges, weights=amount[at_once])[0]
    return amounts(edges, begin, np.maximum(begin, end), rate) + points


def _until(times: Floats, turns: Floats, rate: Floats) -> Floats:
    """Σ rate · min(t, turn) at each of `times`."""
    order = np.argsort(turns, kind="stable")
    turns, rate = np.minimum(turns[order], times[-1]), rate[order]
    past = np.concatenate(([0.0], np.cumsum(rate * turns)))
    to_come = np.concatenate(([0.0], np.cumsum(rate)))
    n = np.searchsorted(turns, times, side="right")
    sums: Floats = past[n] + times * (to_come[-1] - to_come[n])
    return sums
