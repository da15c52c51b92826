"""Rates to come from rates that were. A forecast is a value: the reconcile loop and the simulator use the same one."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Rates = NDArray[np.float64]

NOTHING = 1e-9
"""A rate below this is none: about one request in thirty years."""


class Forecast(Protocol):
    def ahead(self, past: Rates, step_s: float, steps: int) -> Rates:
        """(steps,) mean rates of the steps to come. `past`: (n,) n ≥ 1 mean rates of steps of `step_s` seconds, the
        oldest first, the last one just over."""


@dataclass(frozen=True, slots=True)
class Last:
    """Forecast the rate of the last interval."""

    def ahead(self, past: Rates, step_s: float, steps: int) -> Rates:  # noqa: ARG002 - a forecast is asked so
        return np.full(steps, past[-1])


@dataclass(frozen=True, slots=True)
class Ewma:
    """The exponentially weighted mean: a rate counts half as much as one `half_life_s` later."""

    half_life_s: float

    def ahead(self, past: Rates, step_s: float, steps: int) -> Rates:
        kept = past[-max(1, round(20 * self.half_life_s / step_s)) :]  # older ones weigh less than 1e-6
        weights = 0.5 ** (np.arange(len(kept) - 1, -1, -1.0) * (step_s / self.half_life_s))
        return np.full(steps, float(kept @ weights / weights.sum()))
