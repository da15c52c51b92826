"""Interpolation of measured times: piecewise power laws between the points, never falling."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """Seconds over one quantity: a power law between neighbouring points, constant beyond them."""

    log_x: Floats
    """(n,) ascending."""
    log_seconds: Floats
    """(n,) non-decreasing."""

    @classmethod
    def through(cls, x: Floats, seconds: Floats) -> "Curve":
        """Through points (n,) in any order. Of several at one x, and of those at a larger x, the least counts: less
        work can be padded to more."""
        points, place = np.unique(np.asarray(x, dtype=np.float64), return_inverse=True)
        least = np.full(len(points), np.inf)
        np.minimum.at(least, place, seconds)
        return cls(np.log(points), np.log(_rising(least, 0)))

    @property
    def ends(self) -> tuple[float, float]:
        return float(np.exp(self.log_x[0])), float(np.exp(self.log_x[-1]))

    def within(self, x: Floats) -> Floats:
        """`x` moved to the nearest that was measured."""
        return np.clip(x, *self.ends)

    def at(self, x: Floats) -> Floats:
        return np.asarray(np.exp(np.interp(np.log(self.within(x)), self.log_x, self.log_seconds)))


@dataclass(frozen=True, slots=True, eq=False)
class Surface:
    """Seconds over two quantities: bilinear in their logarithms, constant beyond the grid, falling in neither."""

    log_x: Floats
    log_y: Floats
    log_seconds: Floats
    """(n, m)."""

    @classmethod
    def over(cls, x: Floats, y: Floats, seconds: Floats) -> "Surface":
        """Over a grid: x (n,) and y (m,) ascending, seconds (n, m). Of a cell and those of more work the least
        counts."""
        return cls(np.log(x), np.log(y), np.log(_rising(_rising(seconds, 0), 1)))

    def within(self, x: Floats, y: Floats) -> tuple[Floats, Floats]:
        """The nearest point of the grid's rectangle."""
        return np.clip(x, *np.exp(self.log_x[[0, -1]])), np.clip(y, *np.exp(self.log_y[[0, -1]]))

    def at(self, x: Floats, y: Floats) -> Floats:
        i, after_i, right = _place(self.log_x, x)
        j, after_j, up = _place(self.log_y, y)
        low = self.log_seconds[i, j] * (1 - up) + self.log_seconds[i, after_j] * up
        high = self.log_seconds[after_i, j] * (1 - up) + self.log_seconds[after_i, after_j] * up
        return np.asarray(np.exp(low * (1 - right) + high * right))


def _rising(seconds: Floats, axis: int) -> Floats:
    return np.flip(np.minimum.accumulate(np.flip(seconds, axis), axis=axis), axis)


def _place(log_points: Floats, x: Floats) -> tuple[NDArray[np.intp], NDArray[np.intp], Floats]:
    """(index of the point before, of the point after, share of the way between them), clipped to the points."""
    at = np.clip(np.log(np.maximum(x, 1e-9)), log_points[0], log_points[-1])
    last = len(log_points) - 1
    before = np.clip(np.searchsorted(log_points, at, side="right") - 1, 0, max(last - 1, 0))
    after = np.minimum(before + 1, last)
    width = np.where(after > before, log_points[after] - log_points[before], 1.0)
    return before, after, np.asarray((at - log_points[before]) / width)


def filled(seconds: Floats, bound: Floats, axes: tuple[int, ...]) -> Floats:
    """`seconds` with every cell that was not measured (NaN) as efficient, against `bound`, as the nearest smaller cell
    along the axes in turn, or else the nearest larger one. Raises ValueError where nothing was measured."""
    if np.isnan(seconds).all():
        raise ValueError("no cell of the table was measured")
    slowness = seconds / bound
    for axis in axes:
        for way in (1, -1):
            lines = np.moveaxis(slowness, axis, 0)[::way]
            for before, line in pairwise(lines):
                np.copyto(line, before, where=np.isnan(line))
    return np.asarray(slowness * bound)
