"""Demand that comes back with the hour of the day or of the week."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from policies.forecast import NOTHING, Ewma, Rates

_PERIODS = 4
"""Number of periods that are averaged: what happened once is news, not a season."""

_MOST_OFF = 4.0
"""Factor by which the level of now may correct the season's."""


@dataclass(frozen=True, slots=True)
class Seasonal:
    """The same time of earlier periods, at the level of now: seasonal means, times the last rates over the season's
    own for the same steps (weighted by age as `Ewma`). Before a period is over, `Ewma` alone."""

    period_s: float
    half_life_s: float

    def ahead(self, past: Rates, step_s: float, steps: int) -> Rates:
        period = round(self.period_s / step_s)
        recent = max(1, round(4 * self.half_life_s / step_s))
        n, level = len(past), Ewma(self.half_life_s)
        if period < 1 or n < period + recent:
            return level.ahead(past, step_s, steps)
        season = _season(past, np.arange(n - recent, n + steps), period)
        usual = level.ahead(season[:recent], step_s, 1)[0]
        if usual < NOTHING:
            return level.ahead(past, step_s, steps)
        off = level.ahead(past[n - recent :], step_s, 1)[0] / usual
        return np.asarray(season[recent:] * min(max(off, 1 / _MOST_OFF), _MOST_OFF))


def _season(past: Rates, at: NDArray[np.int64], period: int) -> Rates:
    """Mean of the same step in the `_PERIODS` last periods that are known; `at`: indices, those to come included."""
    nearest = np.maximum(1, -((len(past) - 1 - at) // period))
    earlier = at[:, None] - period * (nearest[:, None] + np.arange(_PERIODS))
    known = earlier >= 0
    return np.asarray((past[np.where(known, earlier, 0)] * known).sum(1) / known.sum(1))
