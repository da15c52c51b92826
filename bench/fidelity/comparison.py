"""How far a simulation is off, request by request, and how far the same run is off when it is made again."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
FLOOR_FACTOR = 1.5


@dataclass(frozen=True, slots=True)
class Error:
    mean: float
    """Over requests, of |one - other| / other."""
    p99: float
    curve: float
    """The same between the two sorted: of their distributions, whoever was slow."""
    bias: float
    """Of the means."""


def error(tried: Floats, truth: Floats) -> Error:
    off = np.abs(tried - truth) / truth
    one, other = np.sort(tried), np.sort(truth)
    curve = float((np.abs(one - other) / other).mean())
    return Error(float(off.mean()), float(np.percentile(off, 99)), curve, float(tried.mean() / truth.mean() - 1))


def mean_error(*errors: Error) -> Error:
    rows = [(e.mean, e.p99, e.curve, e.bias) for e in errors]
    return Error(*(float(np.mean(column)) for column in zip(*rows, strict=True)))


@dataclass(frozen=True, slots=True)
class Comparison:
    """One phase of one shape at one load."""

    shape: str
    load: float
    phase: str
    requests: int
    floor: Error
    """Of each real run from each other one."""
    simulation: Error
    """From each of the real runs."""
    least_bar: float
    """The paper's own error."""

    @property
    def bar(self) -> float:
        return max(self.least_bar, FLOOR_FACTOR * self.floor.mean)

    @property
    def is_met(self) -> bool:
        return self.simulation.mean <= self.bar


def comparison(
    shape: str, load: float, phase: str, least_bar: float, runs: Sequence[Floats], simulation: Floats
) -> Comparison:
    """`runs`: the same requests, twice or more; all (n,) seconds."""
    floor = mean_error(*(error(one, other) for one, other in permutations(runs, 2)))
    found = mean_error(*(error(simulation, one) for one in runs))
    return Comparison(shape, load, phase, len(simulation), floor, found, least_bar)
