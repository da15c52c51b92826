"""How long customers of one server wait (M/G/1, first come first served), and the most load that leaves them in time."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

POINTS = 128
"""Of waiting times, from none up to the budget."""
ALIAS = 1e-6
"""Of a waiting time beyond twice the budget, how much is taken for a shorter one: what the transform folds back."""
HALVINGS = 11
MOST_LOAD = 0.98


def greatest_load(service_s: Floats, weights: Floats, own_s: Floats, budget_s: Floats, share: float) -> Floats:
    """The greatest share of its time (n,) that a server may be busy, so that a customer's wait and its own time are
    within `budget_s` (n,) for `share` of all; 0 where there is none.

    `service_s` (n, q): how long customers of each kind keep the server, `weights` (q,) their shares. `own_s` (n, q + 1):
    the time that a customer itself takes from its start; of kind k anything between entries k and k + 1.

    The wait W is that of Pollaczek and Khinchine, a geometric number of residual services: its transform is
    (1 - ρ) / (1 - ρ R), on a grid, damped so that what the grid cuts off does not come back (Abate and Whitt 1992).
    Whoever comes while a customer waits is taken along in the same step, and all of a step are done together: to one
    that waited W that is up to ρ W more.
    """
    step = budget_s[:, None] / POINTS
    edges = (np.arange(POINTS) + 0.5) * step
    within = np.zeros_like(edges)
    for kind, weight in enumerate(weights):
        within += weight * np.minimum(service_s[:, kind, None], edges)
    within /= (service_s @ weights)[:, None]
    residual = np.diff(within, axis=1, prepend=0.0)
    damping = ALIAS ** (np.arange(POINTS) / (2 * POINTS))
    transform = np.fft.rfft(residual * damping, 2 * POINTS, axis=1)
    own = _distribution(own_s, weights, np.arange(POINTS + 1) * step)
    reach = np.arange(POINTS)

    def on_time(load: Floats) -> Floats:
        waits = np.fft.irfft((1 - load)[:, None] / (1 - load[:, None] * transform), 2 * POINTS, axis=1)
        left = POINTS - reach * (1 + load[:, None])
        cell = np.clip(left.astype(np.int64), 0, POINTS - 1)
        start, end = np.take_along_axis(own, cell, axis=1), np.take_along_axis(own, cell + 1, axis=1)
        kept = np.where(left > 0, start + (end - start) * (left - cell), 0.0)
        return np.asarray((waits[:, :POINTS] / damping * kept).sum(axis=1))

    low, high = np.zeros(len(budget_s)), np.full(len(budget_s), MOST_LOAD)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        holds = on_time(middle) >= share
        low, high = np.where(holds, middle, low), np.where(holds, high, middle)
    return low


def _distribution(ends: Floats, weights: Floats, at: Floats) -> Floats:
    """(n, k): the share below `at` (n, k) of kinds that are spread evenly between two of `ends` (n, q + 1)."""
    total = np.zeros_like(at)
    for kind, weight in enumerate(weights):
        one, other = ends[:, kind, None], ends[:, kind + 1, None]
        rise = np.maximum(np.abs(other - one), 1e-12)
        total += weight * np.clip((at - np.minimum(one, other)) / rise, 0.0, 1.0)
    return total
