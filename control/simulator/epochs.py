"""A simulation cut into the intervals that plans are made at: what was wanted, there, and paid in each."""

from collections.abc import Iterable, Iterator, Sequence
from math import ceil

from control.simulator.fleet_history import FleetHistory
from control.simulator.plane_log import PlanMade
from control.simulator.result import Epoch
from control.simulator.scenario import Scenario
from control.simulator.serving.fleet_timeline import InstanceLife
from control.simulator.standing_plan import StandingPlan

_MADE_WITHIN_S = 10.0
"""A plan that is due at the start of an interval is made within this time."""
_NO_PLAN = PlanMade(0.0, "", 0.0, 0.0, 0.0, 0.0, {}, {}, "", ())


def epochs_of(
    scenario: Scenario, history: FleetHistory | StandingPlan, lives: Sequence[InstanceLife], step_s: float
) -> Iterator[Epoch]:
    """Cut the scenario into steps of `step_s`, of which the last may be shorter."""
    for n in range(ceil(scenario.length_s / step_s - 1e-9)):
        from_s, until_s = n * step_s, min((n + 1) * step_s, scenario.length_s)
        plan = ([_NO_PLAN] + [each for each in history.plans if each.at_s <= from_s + _MADE_WITHIN_S])[-1]
        load, seconds, needed = scenario.traffic.load(from_s, until_s), until_s - from_s, dict[str, float]()
        for model in scenario.models:
            of = load[model.name]
            for name, units in model.work_classes.items():
                came = units[0] * of.requests + units[1] * of.prompt_tokens + units[2] * of.output_tokens
                needed[name] = needed.get(name, 0.0) + came / seconds
        yield Epoch(
            from_s,
            until_s,
            plan.plan_id,
            plan.usd_per_hour,
            plan.init_usd,
            plan.traffic_usd_per_hour,
            history.spent_usd(from_s, until_s),
            sum(each.solve_s for each in history.plans if from_s <= each.at_s < until_s),
            plan.demand,
            plan.unmet,
            {app: of.requests / seconds for app, of in load.items()},
            _capacity(from_s, until_s, lives),
            needed,
        )


def _capacity(from_s: float, until_s: float, lives: Iterable[InstanceLife]) -> dict[str, float]:
    """Return units per second of what took requests, in the mean, by work class."""
    units: dict[str, float] = {}
    for life in lives:
        there_s = min(life.drain_s, life.gone_s, until_s) - max(life.ready_s, from_s)
        if there_s > 0:
            for work_class, per_s in life.units_per_s.items():
                units[work_class] = units.get(work_class, 0.0) + per_s * there_s / (until_s - from_s)
    return units
