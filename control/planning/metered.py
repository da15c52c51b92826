"""From a spec that lets demand be metered to the rules by which it follows from what was offered."""

import math

from control.fleet_file.demand_section import ForecastSection
from control.fleet_file.model_section import ModelSection
from control.planning.world import World
from policies.forecast import Forecast
from policies.forecasts import FORECASTS
from policies.headroom_forecast import Headroom
from policies.metered_demand import DemandRule
from templates_lib.apps.app import RequestType

_PERIODS_S = {"day": 86_400.0, "week": 7 * 86_400.0}


def demand_rules(world: World) -> tuple[DemandRule, ...]:
    """One for every request type of every app whose demand is metered."""
    return tuple(
        _rule(world, section, each)
        for section, app in zip(world.fleet.models, world.apps, strict=True)
        if section.demand.metered
        for each in app.request_types
    )


def _rule(world: World, section: ModelSection, of: RequestType) -> DemandRule:
    demand, policy = section.demand, world.fleet.policy
    ceiling = demand.ceiling_requests_per_s
    return DemandRule(
        app=of.served.name,
        model=section.served_name,
        share=of.share,
        mean_prompt_tokens=of.served.shape.mean_prompt_tokens,
        mean_output_tokens=of.served.shape.mean_output_tokens,
        forecast=_forecast(demand.forecast),
        horizon_s=60 * (world.fleet.reconcile.replan_minutes + policy.startup_minutes),
        floor_requests_per_s=demand.floor_requests_per_s,
        ceiling_requests_per_s=math.inf if ceiling is None else ceiling,
        idle_s=60 * demand.idle_minutes,
        priority=demand.priority,
    )


def _forecast(section: ForecastSection) -> Forecast:
    chosen = FORECASTS[section.policy](60 * section.half_life_minutes, _PERIODS_S[section.period])
    return chosen if section.quantile is None else Headroom(chosen, section.quantile, 3600 * section.window_hours)
