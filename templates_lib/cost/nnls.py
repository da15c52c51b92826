"""Least squares without negative coefficients."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_TOLERANCE = 1e-10


def non_negative_least_squares(features: Floats, target: Floats) -> Floats:
    """The x ≥ 0 (k,) that minimises |features · x - target|; features (n, k), target (n,).

    The active-set method of Lawson and Hanson, "Solving Least Squares Problems" (1974), chapter 23: a coefficient joins
    while that lowers the error, and leaves when the unconstrained solution of those that joined makes it negative.
    """
    scale = np.abs(features).max(axis=0)
    scale[scale == 0] = 1.0
    scaled = features / scale
    solution = np.zeros(features.shape[1])
    free = np.zeros(features.shape[1], dtype=bool)
    for _ in range(3 * features.shape[1]):
        gradient = scaled.T @ (target - scaled @ solution)
        gradient[free] = -np.inf
        joining = int(gradient.argmax())
        if gradient[joining] <= _TOLERANCE * max(1.0, float(np.abs(target).max())):
            break
        free[joining] = True
        solution = _feasible(scaled, target, solution, free)
    return np.asarray(solution / scale)


def _feasible(scaled: Floats, target: Floats, solution: Floats, free: NDArray[np.bool_]) -> Floats:
    """The least squares over the `free` coefficients, less those that it makes negative; changes `free`."""
    while True:
        wanted = np.zeros_like(solution)
        wanted[free] = np.linalg.lstsq(scaled[:, free], target, rcond=None)[0]
        negative = free & (wanted <= 0)
        if not negative.any():
            return wanted
        reach = (solution[negative] / (solution[negative] - wanted[negative] + 1e-300)).min()
        solution = np.maximum(solution + reach * (wanted - solution), 0.0)
        leaving = free & (solution <= _TOLERANCE)
        free[leaving if leaving.any() else negative] = False
        solution[~free] = 0.0
