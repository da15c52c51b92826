"""Fit of measured steps to the coefficients of the measured cost model."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from templates_lib.cost.step_terms import step_terms
from templates_lib.ports.cost_model import Floats, NodeStep
from templates_lib.values.node_profile import ProfileErrors
from templates_lib.values.profile_row import ProfileRow

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


class UnfittableError(ValueError):
    """Raised for too few rows, or rows that cannot be: the sweep has to be run again."""


def fit_step_terms(rows: Sequence[ProfileRow]) -> tuple[dict[str, float], ProfileErrors]:
    """Seconds of each term, by non-negative least squares of relative errors over the rows that are not held out, and
    how far the rest is off. Raises UnfittableError."""
    fitted = [row for row in rows if not row.held_out]
    held_out = [row for row in rows if row.held_out]
    seconds = np.array([row.seconds for row in rows])
    if not held_out or not np.isfinite(seconds).all() or (seconds <= 0).any():
        raise UnfittableError("a profile needs rows that are held out, and every time above 0")
    names, features = _features(fitted)
    if len(fitted) < len(names):
        raise UnfittableError(f"{len(fitted)} rows cannot tell {len(names)} terms apart")
    measured = np.array([row.seconds for row in fitted])
    found = non_negative_least_squares(features / measured[:, None], np.ones(len(fitted)))
    terms = dict(zip(names, found.tolist(), strict=True))
    off = np.abs(predicted(terms, held_out) / np.array([row.seconds for row in held_out]) - 1)
    return terms, ProfileErrors(len(held_out), float(np.median(off)), float(off.max()))


def predicted(terms_s: Mapping[str, float], rows: Sequence[ProfileRow]) -> Floats:
    """(n,) seconds."""
    names, features = _features(rows)
    return np.asarray(features @ np.array([terms_s[name] for name in names]))


def _features(rows: Sequence[ProfileRow]) -> tuple[list[str], Floats]:
    found = [step_terms(_step(row), head=row.last) for row in rows]
    return list(found[0]), np.array([[float(value) for value in row.values()] for row in found])


def _step(row: ProfileRow) -> NodeStep:
    counts = row.layers, row.prompt_tokens, row.prompt_context, row.decode_requests, row.decode_context
    return NodeStep(*(np.float64(count) for count in counts))  # type: ignore[arg-type]
