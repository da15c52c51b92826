"""The demand that a plan is made for, from load that was offered."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from policies.demand_history import DemandHistory
from policies.forecast import Forecast
from policies.metered_work import MeteredClass
from templates_lib.apps.app import serving_id
from templates_lib.values.work import DEFAULT_TYPE, Demand


@dataclass(frozen=True, slots=True)
class DemandRule:
    """Rule by which the demand for one request type follows from its history."""

    app: str
    """Name as in routes and demand."""
    model: str
    """The app: what people override."""
    share: float
    """Planned share of the app's requests that are of this type: its share of floor, ceiling and override."""
    work: tuple[MeteredClass, ...]
    """What a request takes of each class, in the shape that templates are certified for."""
    forecast: Forecast
    horizon_s: float
    """Seconds ahead that capacity is bought for: until the next plan, and until what that launches is there."""
    floor_requests_per_s: float = 0.0
    ceiling_requests_per_s: float = math.inf
    idle_s: float = 1800.0
    """Less than one request in this time is nothing: the model may go to zero."""
    priority: int = 0
    request_type: str = DEFAULT_TYPE

    @property
    def metered(self) -> str:
        """Name of the model by which gateways know the request type."""
        return serving_id(self.app, self.request_type)

    @property
    def key(self) -> str:
        """Of its history."""
        return f"{self.metered}/{DEFAULT_TYPE}"


OVERRIDDEN = "override"
"""Kind of the reasons of a plan that say what it was made for instead of the forecast."""


@dataclass(frozen=True, slots=True)
class DemandOverride:
    """Demand that an operator, or a burst, sets instead of the forecast."""

    requests_per_s: float
    until_s: float
    """Unix seconds."""


def demand_at(
    histories: Mapping[str, DemandHistory],
    rules: Iterable[DemandRule],
    overrides: Mapping[str, DemandOverride],
    waiting: Mapping[str, int],
    now_s: float,
) -> tuple[Demand, ...]:
    """One demand a rule, 0 where nothing is to run.

    `histories`: by `DemandRule.key`; `overrides`: by model; `waiting`: by `DemandRule.metered`, requests that gateways
    hold because nothing serves them: they are demand at once, whatever the forecast says. Floor and ceiling hold for
    forecasts, not for what an operator says.
    """

    def rate(rule: DemandRule) -> float:
        said, held = overrides.get(rule.model), waiting.get(rule.metered, 0)
        return _requests_per_s(histories.get(rule.key), rule, said, held, now_s)

    return tuple(
        Demand(
            rule.app,
            rule.request_type,
            rate(rule),
            rule.priority,
        )
        for rule in rules
    )


def _requests_per_s(
    history: DemandHistory | None, rule: DemandRule, override: DemandOverride | None, waiting: int, now_s: float
) -> float:
    if override is not None and now_s < override.until_s:
        return override.requests_per_s * rule.share
    rate = waiting / rule.idle_s
    if history is not None and len(history.requests_per_s):
        rate = max(rate, _forecast(history, rule, now_s))
    rate = max(rate, rule.floor_requests_per_s * rule.share)
    return min(rate, rule.ceiling_requests_per_s * rule.share)


def _forecast(history: DemandHistory, rule: DemandRule, now_s: float) -> float:
    """The highest rate of the horizon: what is bought must do for all of it."""
    past, step_s = history.planned_requests_per_s(rule.work), history.step_s
    old_steps = max(0, math.floor((now_s - history.end_s) / step_s))
    steps = max(1, math.ceil(rule.horizon_s / step_s))
    rate = float(rule.forecast.ahead(past, step_s, old_steps + steps)[old_steps:].max())
    least = 1 / rule.idle_s
    if rate >= least:
        return rate
    # Nearly nothing is to be expected. It is nothing once nobody has come for a while, and not before.
    recent = past[-max(1, round(rule.idle_s / step_s)) :]
    mean = float(np.mean(recent))
    return max(mean, least) if mean > 0 else 0.0
