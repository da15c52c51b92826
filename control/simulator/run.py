"""A scenario, simulated: the control plane over its logs first, then every request over the fleet that this gave.

What a control plane does depends on the load that is offered (metered when it comes) and on the market, not on how
serving went; so the two are simulated one after the other.
"""

from collections.abc import Iterable, Iterator, Sequence
from math import ceil

from control.simulator.fleet_history import FleetHistory
from control.simulator.fleet_run import Around, run_fleet
from control.simulator.plane_log import PlanMade
from control.simulator.result import Epoch, Facts, SimulationResult
from control.simulator.scenario import FleetScenario, Scenario, SnapshotScenario
from control.simulator.serving.fleet_timeline import InstanceLife
from control.simulator.serving.settings import ServingSettings
from control.simulator.serving.simulate import simulate as serve
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


_EPOCHS = 30
"""Parts of a simulation of one plan, so that it is seen how requests fare over time."""


def simulate(
    scenario: FleetScenario | SnapshotScenario, around: Around, settings: ServingSettings | None = None
) -> SimulationResult:
    """Simulate a scenario. Raises ValueError and LookupError for a fleet that cannot be planned at all."""
    began = around.clock()
    history = _history(scenario, around)
    planned = around.clock()
    fleet = history.timeline()
    served = serve(scenario.traffic.requests, fleet, settings or ServingSettings())
    finished = around.clock()
    nodes = history.nodes()
    step_s = scenario.replan_s / (_EPOCHS if isinstance(scenario, SnapshotScenario) else 1)
    return SimulationResult(
        facts=_facts(scenario, history.plans),
        models=scenario.models,
        requests=scenario.traffic.requests,
        served=served,
        fleet=fleet,
        epochs=tuple(epochs_of(scenario, history, fleet.instances, step_s)),
        instances=history.instances(),
        nodes=nodes,
        events=history.events(),
        spent_usd=sum(node.spent_usd for node in nodes),
        plane_wall_s=planned - began,
        serving_wall_s=finished - planned,
    )


def _history(scenario: FleetScenario | SnapshotScenario, around: Around) -> FleetHistory | StandingPlan:
    if isinstance(scenario, SnapshotScenario):
        return StandingPlan(scenario, around)
    plane = run_fleet(scenario, around)
    return FleetHistory(plane.log, plane.clouds, scenario.world.recipe, scenario.length_s)


def _facts(scenario: FleetScenario | SnapshotScenario, plans: Sequence[PlanMade]) -> Facts:
    last = plans[-1] if plans else None
    of_market = scenario.market.notes if isinstance(scenario, FleetScenario) else ()
    return Facts(
        scenario.name,
        scenario.fleet,
        scenario.strategy,
        scenario.demand,
        scenario.start.isoformat(),
        scenario.length_s,
        scenario.seed,
        scenario.replan_s,
        last.cost_model if last else "",
        scenario.sources,
        tuple(dict.fromkeys((*scenario.notes, *of_market, *(last.notes if last else ())))),
    )
