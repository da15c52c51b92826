"""Head-room that another forecast's own errors ask for."""

from dataclasses import dataclass

import numpy as np

from policies.forecast import NOTHING, Forecast, Rates

_LEAST_TRIED = 8
"""Errors below which a quantile says nothing."""

_MOST = 10.0
"""Factor of head-room: what comes after nearly nothing is beyond any."""


@dataclass(frozen=True, slots=True)
class Headroom:
    """Forecast `base`, raised so that it would have been enough in a share `quantile` of the last `window_s`.

    It is raised by the quantile of the base's relative errors one step ahead, as rates that are twice as large are
    about twice as far off."""

    base: Forecast
    quantile: float
    window_s: float

    def ahead(self, past: Rates, step_s: float, steps: int) -> Rates:
        tries = min(round(self.window_s / step_s), len(past) - 1)
        rates = self.base.ahead(past, step_s, steps)
        if tries < _LEAST_TRIED:
            return rates
        said = np.array([self.base.ahead(past[:-back], step_s, 1)[0] for back in range(tries, 0, -1)])
        came = past[-tries:]
        known = said > NOTHING
        if not known.any():
            return rates
        factor = float(np.quantile(came[known] / said[known], self.quantile))
        return rates * min(max(factor, 1.0), _MOST)
