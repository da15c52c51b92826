"""The registry of forecasts."""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from policies.forecast import Forecast


def _last(_half_life_s: float, _period_s: float) -> "Forecast":
    from policies.forecast import Last

    return Last()


def _ewma(half_life_s: float, _period_s: float) -> "Forecast":
    from policies.forecast import Ewma

    return Ewma(half_life_s)


def _seasonal(half_life_s: float, period_s: float) -> "Forecast":
    from policies.seasonal_forecast import Seasonal

    return Seasonal(period_s, half_life_s)


FORECASTS: dict[str, Callable[[float, float], "Forecast"]] = {"last": _last, "ewma": _ewma, "seasonal": _seasonal}
"""Name → (half-life of the recent mean, s; period of the season, s) → the forecast. Each is imported where it is made:
the command line knows the names from its start."""
PERIODS_S = {"day": 86_400.0, "week": 7 * 86_400.0}
"""Name → length of a season, s."""
