"""Layers that differ: what the worst j consecutive ones hold."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def wider_counts(windows: tuple[int, ...]) -> tuple[tuple[int, ...], Floats]:
    """Distinct windows, narrowest first (0, full attention, counts as widest), and the worst counts.

    Element [i, j] of the second result (float64, shape (kinds, layers + 1)) is the largest number of layers with a
    window of kind ≥ i among j consecutive ones. Σ_i (cost_i - cost_{i-1}) · count[i, j] is then the cost of the worst
    j consecutive layers: exact for two kinds and for j = all layers, from above otherwise, and non-decreasing in j.
    """
    kinds = tuple(sorted(set(windows), key=lambda w: w or np.inf))
    widths = np.array([w or np.inf for w in windows])
    counts = np.zeros((len(kinds), len(windows) + 1))
    for i, kind in enumerate(kinds):
        before = np.concatenate(([0], np.cumsum(widths >= (kind or np.inf))))
        for j in range(1, len(windows) + 1):
            counts[i, j] = (before[j:] - before[:-j]).max()
    return kinds, counts


def worst_mix(layers: Floats, leading: int, total: int, leading_cost: Floats, other_cost: Floats) -> Floats:
    """Cost of the dearest `layers` consecutive layers of a model whose first `leading` of `total` cost another price.

    Linear in how many leading layers are held, so one of the two extremes is the worst.
    """
    fewest = np.maximum(0.0, layers - (total - leading))
    most = np.minimum(layers, leading)
    low = fewest * leading_cost + (layers - fewest) * other_cost
    high = most * leading_cost + (layers - most) * other_cost
    return np.asarray(np.maximum(low, high))
