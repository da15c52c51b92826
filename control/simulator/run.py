"""A scenario, simulated: the control plane over its logs first, then every request over the fleet that this gave.

What a control plane does depends on the load that is offered (metered when it comes) and on the market, not on how
serving went; so the two are simulated one after the other.
"""

from collections.abc import Sequence

from control.simulator.epochs import epochs_of
from control.simulator.fleet_history import FleetHistory
from control.simulator.fleet_run import Around, run_fleet
from control.simulator.plane_log import PlanMade
from control.simulator.result import Facts, SimulationResult
from control.simulator.scenario import FleetScenario, SnapshotScenario
from control.simulator.serving.settings import ServingSettings
from control.simulator.serving.simulate import simulate as serve
from control.simulator.standing_plan import StandingPlan

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
