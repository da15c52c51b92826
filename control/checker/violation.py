"""One way in which a plan is not what it says."""

import math
from dataclasses import dataclass

RELATIVE_TOLERANCE = 1e-6
ABSOLUTE_TOLERANCE = 1e-6
"""Sums of a thousand rounded figures differ by less; a node, a cent or a request per hour is more."""


@dataclass(frozen=True, slots=True)
class Violation:
    rule: str
    """Rule that does not hold, for programs: `price`, `rent`, `node_accounting`, `supply`, `pool`, `capacity` and
    others."""
    where: str
    """The part of the plan, or the offer, zone, class or demand that it is about."""
    expected: str
    found: str

    @property
    def text(self) -> str:
        return f"{self.rule} at {self.where}: expected {self.expected}, found {self.found}"


def slack(*magnitudes: float) -> float:
    """Return how far two sums of these magnitudes may lie apart by rounding alone."""
    return ABSOLUTE_TOLERANCE + RELATIVE_TOLERANCE * max((abs(m) for m in magnitudes), default=0.0)


def same(one: float, other: float) -> bool:
    """Tell whether two numbers are equal but for rounding; never true of NaN."""
    return math.isfinite(one) and math.isfinite(other) and abs(one - other) <= slack(one, other)
