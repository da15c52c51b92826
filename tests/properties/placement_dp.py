"""A second, independent way to the best placement: dynamic programming over stages and layers."""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray


def _shifted(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """(..., L + 1, L + 1) of rows (..., L + 1): row[l - i] in line l, column L - i, and 0 where l < i."""
    size = rows.shape[-1]
    padded = np.concatenate([np.zeros((*rows.shape[:-1], size - 1)), rows], axis=-1)
    return sliding_window_view(padded, size, axis=-1)


def _largest_smallest(left: NDArray[np.float64], shifted: NDArray[np.float64]) -> NDArray[np.float64]:
    """(L + 1,) max over i of min(left[i], right[l - i]), for every l; of `right` what `_shifted` makes."""
    largest: NDArray[np.float64] = np.minimum(shifted, left[::-1]).max(axis=-1)
    return largest


def best_units_per_s(units: NDArray[np.float64], nodes: tuple[int, ...]) -> float:
    """The slowest stage's units/s in the best pipeline of all layers on all `nodes`; T̂ `units` (4, B, C, L).

    f[s, M][l]: the best slowest stage when the first s stages hold l layers on the set of nodes M.
    """
    full = (1 << len(nodes)) - 1
    layers = units.shape[3]
    best = float(sum(units[3, 0, k, layers - 1] for k in nodes))
    for stages in range(2, len(nodes) + 1):
        by_mask = np.zeros((3, full + 1, layers + 1))
        for mask in range(1, full + 1):
            inside = [k for i, k in enumerate(nodes) if mask >> i & 1]
            by_mask[:, mask, 1:] = units[:3, stages - 1, inside, :].sum(axis=1)
        first, middle, last = by_mask
        shifted = _shifted(middle)
        so_far = first
        for _ in range(stages - 2):
            longer = np.zeros_like(so_far)
            for mask in range(1, full + 1):
                block = (mask - 1) & mask
                while block:
                    if so_far[mask ^ block].any() and middle[block].any():
                        joined = _largest_smallest(so_far[mask ^ block], shifted[block])
                        longer[mask] = np.maximum(longer[mask], joined)
                    block = (block - 1) & mask
            so_far = longer
        for block in range(1, full):
            best = max(best, float(np.minimum(so_far[full ^ block], last[block][::-1]).max()))
    return best
