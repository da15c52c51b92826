"""From a spec that lets demand be metered to the rules by which it follows from what was offered."""

import math

from control.fleet_file.demand_section import ForecastSection
from control.fleet_file.model_section import ModelSection
from control.planning.world import World
from policies.forecast import Forecast
from policies.forecasts import FORECASTS
from policies.headroom_forecast import Headroom
from policies.metered_demand import DemandRule
from templates_lib.apps.long_prompts import LONG_SUFFIX
from templates_lib.apps.served_model import ServedModel

_PERIODS_S = {"day": 86_400.0, "week": 7 * 86_400.0}


def demand_rules(world: World) -> tuple[DemandRule, ...]:
    """One for every part of every model whose demand is metered."""
    served = {model.name: model for model in world.recipe.served}
    rules: list[DemandRule] = []
    for section in world.fleet.models:
        if section.demand.metered:
            name = section.served_name
            parts = [served[part] for part in (name, name + LONG_SUFFIX) if part in served]
            # A shape is cut by its requests, so each part has as many as its share says.
            requests = sum(len(part.shape.prompt_tokens) for part in parts)
            rules += (_rule(world, section, part, len(part.shape.prompt_tokens) / requests) for part in parts)
    return tuple(rules)


def _rule(world: World, section: ModelSection, part: ServedModel, share: float) -> DemandRule:
    demand, policy = section.demand, world.fleet.policy
    ceiling = demand.ceiling_requests_per_s
    return DemandRule(
        app=part.name,
        model=section.served_name,
        share=share,
        mean_prompt_tokens=part.shape.mean_prompt_tokens,
        mean_output_tokens=part.shape.mean_output_tokens,
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
