"""A picture as a value: what is drawn, apart from how."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

MOST_LINES = 8
"""Colours that people can tell apart."""
_HALF = 100
"""Points of a distribution on each side of its 90th percentile."""
OTHERS = "others"


class Kind(StrEnum):
    STEPS = "steps"
    """Each value holds from one edge to the next."""
    STACK = "stack"
    """The same, one on the other, filled."""
    CURVE = "curve"
    """Points, joined."""


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    name: str
    y: Numbers
    """(n,); NaN: nothing is known there."""
    x: Numbers
    """(n,) of a curve; (n + 1,) edges otherwise."""
    limit: float | None = None
    """Place on the x axis of the objective of a curve."""


@dataclass(frozen=True, slots=True, eq=False)
class Chart:
    id: str
    """Name of files and anchors."""
    title: str
    x_unit: str
    y_unit: str
    kind: Kind
    lines: tuple[Line, ...]
    """Lines, at most `MOST_LINES`: `largest` takes care of that."""
    note: str = ""
    log_x: bool = False
    top: float | None = None
    """The y axis ends there; None: where the lines do."""
    level: float | None = None
    """A value to compare with, drawn across."""


def largest(lines: Sequence[Line]) -> tuple[Line, ...]:
    """As many lines as can be told apart: those with the largest sums, in their order, and the sum of the rest. They
    share their x."""
    if len(lines) <= MOST_LINES:
        return tuple(lines)
    by_size = sorted(lines, key=lambda line: -float(np.nansum(line.y)))
    kept, rest = set(map(id, by_size[: MOST_LINES - 1])), by_size[MOST_LINES - 1 :]
    others = Line(f"{len(rest)} {OTHERS}", np.sum([line.y for line in rest], axis=0), rest[0].x)
    return (*(line for line in lines if id(line) in kept), others)


def cumulative(values: Numbers) -> tuple[Numbers, Numbers]:
    """(x, y) of the share of `values` that are at most x, thinned to points that show the tail: half of them lie
    beyond the 90th percentile. Empty for no values."""
    if not len(values):
        return np.array([]), np.array([])
    body, tail = np.linspace(0, 0.9, _HALF, endpoint=False), 1 - np.geomspace(0.1, 1e-4, _HALF)
    shares = np.concatenate([body, tail, [1.0]])
    return np.quantile(values, shares, method="inverted_cdf"), shares
